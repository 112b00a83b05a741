#!/bin/bash
# Elastic jobs on emulated GPUs (docs/simt.md), over NCCL and through the host, whose ranks are killed, stopped and slowed: tests/chaos_runs.py.
#
# Run from the project's root. BUILD: the first part of where the program is (default: build, for build-simt). SEEDS: which runs.
set -u -o pipefail
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)     # in memory: a disk may stand still for longer than is waited here
trap 'rm -rf "$work"' EXIT
if [ ! -r /proc/self/environ ]; then
    echo "skip chaos_cuda: without /proc it cannot be seen whether ranks are left"
    exit 0
fi
for seed in ${SEEDS:-5 11 15}; do python3 tests/chaos_runs.py "${BUILD:-build}-simt" "$work" "$seed" 1 cuda; done
