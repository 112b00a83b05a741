#!/bin/bash
# The lessons' exercises: references get full marks, starters none, and planted mistakes are rejected by their claims.
# EVERY=N (default: 8): of the mistakes of an exercise only every N-th, from the first; tests/long/exercises.sh has all.
# Run from the project's root, with BUILD (default: build) built.
set -o pipefail
if grep -q fsanitize=address "${BUILD:-build}/settings"; then
    echo "skip exercises: they are not for a sanitizer's build"; exit
fi
tools/check-exercises --built --every "${EVERY:-8}" | grep -v '^[0-9]* passed, '
