#!/bin/bash
# What refusals print as a remedy is tried: of plans that are drawn (tests/remedies.py), and of the cases of
# tests/data/remedies (tests/remedies_table.py).
#
# CASES, SEED: how many plans, and which. FILES: the cases of which files. MET=1: and the list of the messages that
# plans meet is the true one
set -u -o pipefail
program=${BUILD:-build}/trivium
met=${MET:+$(mktemp)}
trap 'rm -f "$met"' EXIT
MET=$met python3 tests/remedies.py "$program" "${CASES:-150}" "${SEED:-1}"
FILES=${FILES-checkpoints data launch plans} MET=$met python3 tests/remedies_table.py "$program"
[ -z "$met" ] || python3 tests/remedies_table.py "$program" --met "$met"
