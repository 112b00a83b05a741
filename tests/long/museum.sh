#!/bin/bash
# The museum of silent bugs, all of it: each patch of tests/museum compiles, trains without an error, and differs from
# the correct run, which its layout without the bug does not; and types, bytes, order, the first step and the oracle see
# what docs/museum.md says. Runs are short: what the loss does in 1000 steps is measured by tools/museum --write. Run
# from the project's root.
set -u -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x build/trivium ] || make -s CUDA=0 build/trivium >"$work/said" 2>&1
tools/museum >"$work/said" 2>&1
if [ $? = 0 ]; then
    echo "ok museum: $(tail -1 "$work/said" |
        sed 's/ passed.*//') silent bugs are silent, bugs, and seen by the checks that docs/museum.md names"
else echo "not ok museum: some bug is not one, not silent, or not as docs/museum.md says"
grep -v '^measured' "$work/said" | sed 's/^/    /'; fi
