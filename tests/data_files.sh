#!/bin/bash
# What people give to --data: a table of files of some fifty kinds, each made here, and what the program must make of
# it.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
command -v python3 >/dev/null || { echo 'skip data_files there is no python3'; exit 0; }
build=$(cd "${BUILD:-build}" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0} LC_ALL=C.UTF-8 python3 tests/data_files.py "$build/trivium" "$work"
