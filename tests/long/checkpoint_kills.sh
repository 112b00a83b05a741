#!/bin/bash
# tests/checkpoint.sh with fifty killed runs.
KILLS=50 exec bash "$(dirname "$0")/../checkpoint.sh"
