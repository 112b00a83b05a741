#!/bin/bash
# Wrong solutions as a class writes them (tests/data/grade/wrong.txt): none has full marks, and the first line of each
# report names the cause. Those of lesson 04 and those that drop a status; tests/long/wrong.sh has all.
# Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash
# shellcheck disable=SC2086 # several words; a planted mistake needs one of them
python3 tests/data/grade/wrong.py ${WRONG-04 status}
