#!/bin/bash
# Decks of slides (tools/slides): one for each lesson, of its own text, the same each time, and without a network. Run
# from the project's root. Skipped where tools/install-deps slides has not been.
set -u -o pipefail
missing=$(tools/install-deps --check slides) || { echo "skip slides ${missing#*: }"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$1" = 0 ]; then echo "ok slides: $2"; else
    echo "not ok slides: $2"; sed 's/^/    /' "$work/said"; fi; }

tools/slides --out "$work/one" >"$work/said" 2>&1 &&
    [ "$(wc -l <"$work/said")" = "$(find lessons -maxdepth 1 -name '[0-9][0-9]-*' | wc -l)" ]
report $? "each lesson has a deck"
tools/slides --out "$work/two" 03 07 >>"$work/said" 2>&1 && cmp "$work/one/03-data-parallelism.html" \
    "$work/two/03-data-parallelism.html" >>"$work/said" && [ "$(find "$work/two" -type f | wc -l)" = 2 ]
report $? "a deck is the same each time"
for deck in "$work"/one/*.html; do
    for title in Goal 'After this lesson' Remember; do
        grep -q "<h[12][^>]*>$title" "$deck" || echo "${deck##*/}: no slide $title"
    done
    if grep -noE '(src|href)="(https?:|//)[^"]*"' "$deck"; then echo "${deck##*/}: from a network"; fi
done >"$work/said"
[ ! -s "$work/said" ]
report $? "a deck has goal and Remember, and takes nothing from a network"
tools/slides --out "$work/two" 99 >"$work/said" 2>&1; [ $? = 2 ] && grep -q 'no such lesson' "$work/said"
report $? "an unknown lesson is refused by number"
