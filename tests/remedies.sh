#!/bin/bash
# Each message that advises what can be typed has a case in tests/data/remedies, where its advice is taken
# (tests/more/remedies.sh does that). Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
command -v python3 >/dev/null || { echo 'skip remedies there is no python3'; exit 0; }
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo 'skip remedies this is no clone of the project'; exit 0; }
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}
python3 tests/remedies_table.py "${BUILD:-build}/trivium" --static
