#!/bin/bash
# tests/chaos.sh with two hundred runs.
RUNS=200 exec bash "$(dirname "$0")/../chaos.sh"
