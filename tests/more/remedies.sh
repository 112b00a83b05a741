#!/bin/bash
# What refusals of plans print as a remedy is tried (tests/remedies.py).
#
# CASES, SEED: how many plans, and which
set -u -o pipefail
python3 tests/remedies.py "${BUILD:-build}/trivium" "${CASES:-250}" "${SEED:-1}"
