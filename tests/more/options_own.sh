#!/bin/bash
# Each option of a command's own, train's aside, changes something or is refused by name (tests/options_own.py).
set -u -o pipefail
python3 tests/options_own.py "${BUILD:-build}/trivium"
