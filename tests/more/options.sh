#!/bin/bash
# Two values of each option of `trivium train` change what it does (tests/options.py, tests/data/options). OWN=1: each
# option of a command's own changes something or is refused by name (tests/options_own.py).
#
# Run from the project's root. BUILD: where the program is (default: build). ONLY: a regular expression, the options
# that are tried (default: all)
set -u -o pipefail
command -v python3 >/dev/null || { echo 'skip options there is no python3'; exit 0; }
if [ "${OWN-}" ]; then python3 tests/options_own.py "${BUILD:-build}/trivium"
else python3 tests/options.py "${BUILD:-build}/trivium" "${ONLY-}"; fi
