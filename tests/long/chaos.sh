#!/bin/bash
# tests/more/chaos.sh with two hundred runs.
RUNS=200 exec bash "$(dirname "$0")/../more/chaos.sh"
