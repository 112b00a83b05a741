#!/bin/bash
# Wrong solutions of all kinds (tests/data/grade/wrong.txt). Run from the project's root, with BUILD (default: build)
# built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash
python3 tests/data/grade/wrong.py
