#!/bin/bash
# Hand-ins that mean harm, of all kinds (tests/data/grade/hostile.txt). Run from the project's root, with BUILD
# (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash
python3 tests/data/grade/hostile.py "$work/hostile"
