#!/bin/bash
# Elastic jobs on several hosts whose agents and ranks are killed and stopped at random: tests/chaos_hosts.py.
#
# Run from the project's root. BUILD: where the program is (default: build). RUNS, SEED: how many, from which seed on.
set -u -o pipefail
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)     # in memory: a disk may stall for longer than this test waits
trap 'rm -rf "$work"' EXIT
if [ ! -r /proc/self/environ ]; then
    echo "skip chaos_hosts: without /proc it cannot be seen whether ranks are left"
    exit 0
fi
python3 tests/chaos_hosts.py "${BUILD:-build}" "$work" "${SEED:-1}" "${RUNS:-6}"
