#!/bin/bash
# The museum of silent bugs: every patch has its header and applies, three of them are measured, and the page is what
# its numbers make. Run from the project's root; tools/museum measures all of them (tests/long).
set -u -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$1" = 0 ]; then echo "ok museum: $2"; else
    echo "not ok museum: $2"; sed 's/^/    /' "$work/said"; fi; }

git apply --check tests/museum/*.patch >"$work/said" 2>&1 || for patch in tests/museum/*.patch; do
    git apply --check "$patch" >>"$work/said" 2>&1 || touch "$work/stale"
done
[ ! -e "$work/stale" ]
report $? "every patch applies"

# What it changes compiles, as tools/museum builds it; for a header, the source of its name.
[ -e build/settings ] && [ -x build/trivium ] || make -s CUDA=0 build/settings build/trivium >"$work/said" 2>&1
read -ra flags < <(sed -n 's/^TEST_CFLAGS=//p' build/settings)
compiles() { # PATCH
    local tree
    tree=$(mktemp -d -p "$work")
    sed -n 's|^+++ b/||p' "$1" | xargs cp --parents -t "$tree" && patch -s -p1 -d "$tree" <"$1" || return
    for file in $(sed -n 's|^+++ b/||p' "$1"); do
        file=${file%.[ch]}.c
        [ -e "$tree/$file" ] || cp "$file" "$tree/$file"
        "${CC:-cc}" -I"$tree" "${flags[@]}" -Werror -DELEM=fp64 -DELEM_fp64 -fsyntax-only "$tree/$file" || return
    done
}
: >"$work/said"
for patch in tests/museum/*.patch; do
    compiles "$patch" >>"$work/said" 2>&1 || { echo "$patch does not compile" >>"$work/said" && touch "$work/broken"; }
done
[ ! -e "$work/broken" ]
report $? "what every patch changes compiles"

tools/museum tp-norm-counts-copies pp-divided-by-microbatches zero-copies-instead-of-adding >"$work/said" 2>&1 &&
    grep -q 'zero-copies-instead-of-adding .*seen by .*norm 1.*oracle' "$work/said" &&
    grep -q '^3 passed, 0 failed$' "$work/said"
report $? "three bugs are planted, and are seen by the norm and the oracle"

sed '/"tp-norm-counts-copies"/s/"types": true/"types": false/' docs/museum.json >"$work/other.json"
! RESULTS=$work/other.json tools/museum tp-norm-counts-copies >"$work/said" 2>&1 &&
    grep -q "^FAILED .*types sees it, and .*other.json says that it does not see it" "$work/said" &&
    grep -q '^0 passed, 1 failed$' "$work/said"
report $? "a row that says otherwise than the check is found"

OUT=$work tools/museum --page >"$work/said" 2>&1 && diff "$work/museum.md" docs/museum.md >>"$work/said" 2>&1 &&
    cmp "$work/figures/museum.svg" docs/figures/museum.svg >>"$work/said" 2>&1
report $? "the page and the picture are those of docs/museum.json"
