#!/bin/bash
# tests/fuzz.sh with every target.
FUZZ=all exec bash tests/fuzz.sh
