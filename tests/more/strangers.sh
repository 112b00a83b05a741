#!/bin/bash
# An elastic job on several hosts among strangers without its secret: tests/strangers.py.
#
# Run from the project's root. BUILD: where the program is (default: build). CASES: which (default: all).
set -u -o pipefail
# in memory: a disk may stand still for longer than is waited here
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -r /proc/self/environ ]; then
    echo "skip strangers: without /proc the lighthouse cannot be found"
    exit 0
fi
# shellcheck disable=SC2086 # several
python3 tests/strangers.py "${BUILD:-build}" "$work" ${CASES-}
