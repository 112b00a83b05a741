#!/bin/bash
# tests/more/remedies.sh with more plans, others, and all cases; and the list of the messages that plans meet is the
# true one.
set -u -o pipefail
met=$(mktemp)
trap 'rm -f "$met"' EXIT
export MET=$met
CASES=4000 SEED=2 FILES='' tests/more/remedies.sh
python3 tests/remedies_table.py "${BUILD:-build}/trivium" --met "$met"
