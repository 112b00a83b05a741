#!/bin/bash
# What refusals print as a remedy is tried: of plans that are drawn (tests/remedies.py), and of the cases of
# tests/data/remedies (tests/remedies_table.py).
#
# CASES, SEED: how many plans, and which. FILES: the cases of which files
set -u -o pipefail
program=${BUILD:-build}/trivium
python3 tests/remedies.py "$program" "${CASES:-150}" "${SEED:-1}"
FILES=${FILES-checkpoints data launch plans} python3 tests/remedies_table.py "$program"
