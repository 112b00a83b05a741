#!/bin/bash
# tests/more/chaos_cuda.sh with forty runs.
SEEDS=$(seq -s ' ' 1 40) exec bash "$(dirname "$0")/../more/chaos_cuda.sh"
