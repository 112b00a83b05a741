#!/bin/bash
# The texts keep to the words of the project, and tools/check-words notices where one does not: mistakes planted in a
# small tree of its own. The course's figures are what their scripts draw.
#
# Run from the project's root.
# shellcheck disable=SC2016 # formulas
set -u -o pipefail
command -v python3 >/dev/null || { echo "skip words there is no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
not_ok() { echo "not ok $1: $2"; sed 's/^/#   /' "$work/out"; } # NAME WHY

if tools/check-words >"$work/out" 2>&1; then echo "ok words_of_every_page"
else not_ok words_of_every_page "see below"; fi

if tools/concepts/draw --check >"$work/out" 2>&1; then echo "ok words_concept_figures_are_what_their_scripts_make"
else not_ok words_concept_figures_are_what_their_scripts_make "tools/concepts/draw makes them again"; fi

# ---- a tree with one right page ----
tree=$work/tree page=README.md
mkdir -p "$tree/tools/words"
cp tools/check-words "$tree/tools"
cp tools/words/code.py "$tree/tools/words"
echo '# none' >"$tree/tools/words/exceptions"
cat >"$work/right" <<'END'
# A page

A sentence of `code that is anew` and of a formula $a + b$ ends here, after
one line. Each rank sends $S$ bytes per step, once for $m$ microbatches:

    nobody reads this block, however long it is

* a list item that has twenty words in it is no part of the sentence before it, and so it is short
* another one of the list

| a cell | of twenty words is a sentence of its own, so that a row of a table may have many more of them |
|---|---|
END
check() { "$tree/tools/check-words" >"$work/out" 2>&1; }
cp "$work/right" "$tree/$page"
if check && grep -q '^1 files, 0 hits$' "$work/out"; then echo "ok words_a_right_page_passes"
else not_ok words_a_right_page_passes "it does not"; fi

plant() { # NAME TEXT SED...: after this edit the check fails, and says TEXT
    local name=words_notice_$1 text=$2
    shift 2
    sed "$@" "$work/right" >"$tree/$page"
    if cmp -s "$work/right" "$tree/$page"; then not_ok "$name" "the edit changes nothing"
    elif check; then not_ok "$name" "it passes"
    elif ! grep -qF -- "$text" "$work/out"; then not_ok "$name" "does not say: $text"
    else echo "ok $name"; fi
}
plant a_phrase 'README.md:3: "nobody"; say: no one' 's/^A sentence/It names nobody and/'
plant a_phrase_across_lines '"for ever"; say: forever' -e 's/ends here, after/lasts for/' -e 's/^one line/ever/'
plant bytes_a_step '"bytes a step"; say: per' 's/bytes per step/bytes a step/; s/\$S\$ bytes a/many bytes a/'
plant a_long_sentence 'README.md:3: 36 words in a sentence; at most 35' \
    's/^A sentence/A sentence of one two three four five six seven eight nine ten eleven '\
'twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty more/'
plant a_letter '"$m$ messages"; m counts microbatches' 's/\$m\$ microbatches/$m$ messages/'
plant a_long_cell 'words in a sentence' \
    's/of twenty words/of twenty words and of one two three four five six seven eight nine ten eleven twelve thirteen/'

# ---- the length of a lesson: code, output and addresses do not count ----
mkdir -p "$tree/lessons/03-small"
cp "$work/right" "$tree/$page"
lesson() { # WORDS
    printf '# 03  Small\n\n```text output\nmany more words\n```\n'
    printf '[one](an/address/of/many/words.md) `more code than one word`\n'
    for ((i = 5; i <= $1; i++)); do printf 'word.\n'; done
}
lesson 4000 >"$tree/lessons/03-small/README.md"
if check; then echo "ok words_of_a_lesson_up_to_4000"; else not_ok words_of_a_lesson_up_to_4000 "refused"; fi
lesson 4001 >"$tree/lessons/03-small/README.md"
if ! check && grep -q 'lessons/03-small/README.md:1: 4001 words; a lesson has at most 4000' "$work/out"; then
    echo "ok words_of_a_lesson_beyond_4000"
else not_ok words_of_a_lesson_beyond_4000 "it passes"; fi
rm -r "$tree/lessons"

# ---- sources: comments, strings and heads of mutants ----
cat >"$work/source.c" <<'END'
/* The rank that holds a shard sends it, to be told apart by its tag. Rounding is to nearest. */
int beside;   /* `beside`: a name in quotes */
static const char *text = "the rank is gone; "
                          "give --elastic";
END
planted() { # NAME FILE TEXT SED: this edit of a right source is found, in this line
    local name=words_notice_$1_in_a_source
    rm -f "$tree"/x.*
    sed "$4" "$work/source.c" >"$tree/$2"
    if ! cmp -s "$work/source.c" "$tree/$2" && ! check && grep -qF -- "$2$3" "$work/out"; then echo "ok $name"
    else not_ok "$name" "does not say: $2$3"; fi
}
cp "$work/right" "$tree/$page"
cp "$work/source.c" "$tree/x.c"
if check; then echo "ok words_a_right_source_passes"; else not_ok words_a_right_source_passes "it does not"; fi
planted a_comment x.c ':1: "Whoever"; say: the rank that' 's/The rank that/Whoever/'
planted an_obligation x.c ':1: "is to"; say: must' 's/to be told apart/and is to be kept/'
planted a_first_word x.c ':1: begins with "Of"' 's/The rank that/Of a param: the rank that/'
planted a_message x.c ':3: "knows"; say: has, finds' 's/give --elastic/nothing knows it/'
planted a_head_of_a_mutant x.patch ':1: "nobody"; say: no rank' 's/^.*The rank.*/# what: a shard that nobody sends/'
planted a_line_of_a_script x.sh ':1: "beside"; say: next to' 's/^.*The rank.*/# one file beside another/'
rm -f "$tree"/x.*

# ---- exceptions ----
sed 's/^A sentence/It names nobody and/' "$work/right" >"$tree/$page"
echo 'README.md | It names nobody | a quotation' >"$tree/tools/words/exceptions"
if check; then
    echo "ok words_an_exception_is_let_through"
else
    not_ok words_an_exception_is_let_through "it is not"
fi
cp "$work/right" "$tree/$page"
if ! check && grep -q 'exceptions:1: "It names nobody" is not in README.md any more' "$work/out"; then
    echo "ok words_notice_a_stale_exception"
else not_ok words_notice_a_stale_exception "it passes"; fi
echo 'README.md | It names nobody' >"$tree/tools/words/exceptions"
if ! check && grep -q 'has to be PATH' "$work/out"; then echo "ok words_notice_an_exception_without_a_reason"
else not_ok words_notice_an_exception_without_a_reason "it passes"; fi
