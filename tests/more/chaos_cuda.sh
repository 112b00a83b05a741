#!/bin/bash
# tests/more/chaos.sh on emulated GPUs (docs/simt.md), with NCCL and through the host. BUILD: the first part of where
# the program is (default:
# build, for build-simt). SEEDS: which runs.
for seed in ${SEEDS:-5 11 15}; do
    BUILD=${BUILD:-build}-simt SEED=$seed RUNS=1 ON=cuda bash "$(dirname "$0")/chaos.sh"
done
