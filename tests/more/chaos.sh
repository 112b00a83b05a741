#!/bin/bash
# Elastic jobs whose ranks are killed, stopped and slowed at random (launch --chaos): tests/chaos_runs.py.
#
# Run from the project's root. BUILD: where the program is (default: build). RUNS, SEED: how many, from which seed on.
# ON: cpu or cuda.
set -u -o pipefail
# in memory: a disk may stand still for longer than is waited here
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -r /proc/self/environ ]; then
    echo "skip chaos: without /proc it cannot be seen whether ranks are left"
    exit 0
fi
python3 tests/chaos_runs.py "${BUILD:-build}" "$work" "${SEED:-1}" "${RUNS:-6}" "${ON:-cpu}"
