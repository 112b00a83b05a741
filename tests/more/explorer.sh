#!/bin/bash
# The explorer's page in a headless Chromium, against build/trivium: what 300 random configurations print, how long the
# largest takes, and what stands in the page (planner/explorer/check.py). Skipped where tools/install-deps explorer
# browser finds something missing.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
missing=$(tools/install-deps --check explorer browser) || { echo "skip explorer ${missing#*: }"; exit 0; }
if make --no-print-directory explorer >/dev/null; then
    echo "ok explorer_builds"
else
    echo "not ok explorer_builds: make explorer fails"; exit 0
fi
python3 planner/explorer/check.py build/explorer/explorer.html "${BUILD:-build}/trivium" "${CONFIGURATIONS:-300}" ||
    echo "not ok explorer_check: it did not reach its end"
