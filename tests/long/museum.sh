#!/bin/bash
# The museum of silent bugs, all of it: each patch of tests/museum compiles, trains without an error, and differs from the correct run, which its
# layout without the bug does not. An hour. Run from the project's root.
set -u -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x build/trivium ] || make -s CUDA=0 build/trivium >"$work/said" 2>&1
tools/museum --all >"$work/said" 2>&1
if [ $? = 0 ]; then echo "ok museum: $(tail -1 "$work/said" | sed 's/ passed.*//') silent bugs are silent, and bugs"
else echo "not ok museum: some bug is not one, or not silent"; grep -v '^measured' "$work/said" | sed 's/^/    /'; fi
