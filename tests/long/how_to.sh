#!/bin/bash
# What the how-to pages show is built and tested as it stands there: each page in a copy of the tree.
set -u -o pipefail
BUILD=${BUILD:-build}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; fi; }

# try PAGE RANKS TEST [PAGE_BEFORE]: the tests named so pass in a tree with the page's files, and those of a page that
# it builds on
try() {
    local page tree=$copy/$1
    mkdir "$tree"
    git ls-files -co --exclude-standard -z | while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done |
        xargs -0 cp -p --parents -t "$tree"
    cp -a "$BUILD" "$tree/build"
    for page in ${4-} "$1"; do
        tools/docs/extract "docs/how-to/add-$page.md" "$tree" || { report "the page on $1: its files" 1; return; }
    done
    (cd "$tree" && export BUILD=build && make -j2 WERROR=1 build build/trivium-tests &&
        TEST_RANKS="$2" tests/run "$3" && tools/check-deps && tools/check-map) >"$copy/log" 2>&1
    local code=$?
    [ $code = 0 ] || tail -30 "$copy/log"
    local holds="builds without a warning, passes its tests, includes what it may, and is on the map"
    report "the page on $1: what it shows $holds" $code
}
try a-technique "2 4" wire16
try a-model "1 2 4" mlp
try an-axis "2 4 8" lp a-model
try an-op 1 relu2
try a-family 1 test_hf_config
try a-schedule "1 4" eager
try an-optimizer 1 lion
