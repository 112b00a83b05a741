#!/bin/bash
# Every page's anchors, links and sections; and whether tools/check-lessons notices what it is there for: mistakes
# planted in a small tree of its own.
#
# Run from the project's root.
# shellcheck disable=SC2016 # what is planted is the words of other shells
set -u -o pipefail
command -v python3 >/dev/null || { echo "skip lessons there is no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' "$work/out"
}

if tools/check-lessons --anchors >"$work/out" 2>&1; then echo "ok lessons_anchors_links_sections"
else not_ok lessons_anchors_links_sections "see below"; fi

# ---- the shell for a lesson's commands ----
echo 'cd "$WORK" && pwd; echo "$OMPI_ALLOW_RUN_AS_ROOT, make: $MAKEFLAGS"' | make -s lesson LESSON=29 >"$work/out" 2>&1
if tail -2 "$work/out" | cmp -s - <(echo "$PWD/build/lessons/29"; echo "1, make: "); then echo "ok lessons_have_a_shell"
else not_ok lessons_have_a_shell "see below"; fi
rmdir build/lessons/29
if make -s lesson >"$work/out" 2>&1; then not_ok lessons_shell_needs_a_lesson "it starts"
elif ! grep -q 'make lesson LESSON=07' "$work/out"; then not_ok lessons_shell_needs_a_lesson "no remedy"
else echo "ok lessons_shell_needs_a_lesson"; fi

# ---- starters are small: three types of the project, said in the text ----
if python3 - >"$work/out" 2>&1 <<'END'; then echo "ok lessons_starters_show_three_types"
import sys
sys.path.insert(0, "tools")
from grader import contract, exercise
faults = [line for e in exercise.exercises() if e.kind != "table" and not e.starter_patch
          for line in contract.types_at_fault(e)]
sys.exit("\n".join(faults) or 0)
END
else not_ok lessons_starters_show_three_types "see below"; fi

# ---- a tree with one right lesson ----
tree=$work/tree lesson=lessons/03-small/README.md
mkdir -p "$tree/tools" "$tree/lessons/03-small" "$tree/dp"
cp -r tools/check-lessons tools/lessons "$tree/tools"
cat >"$tree/dp/small.c" <<'END'
/* int in_a_comment(void) { } */
#include "dp/small.h"
static const char *text = "int in_a_string(void) {";
int only_declared(int);
enum { FIRST, SECOND = 2 };
struct pair { int left, right; };
enum status CPU(small_forward)(struct pair *p) { return p->left ? OK : E_TODO; }
END
cat >"$tree/dp/small.h" <<'END'
extern const struct op op_small;
#define SMALL_LIMIT 3
int only_declared(int);
END
printf '%s\n' 'def twice(x):' '    return 2 * x' '' '' 'def main():' '    x = 1' '    x = twice(x)' '    return x' \
    >"$tree/dp/small.py"
right() {
    cat <<'END'
# 03  Small

**Prerequisites** none. **Time** short. **You need** `bash`.

## Goal
See [dp/small.c:small_forward], [dp/small.c:pair], `[dp/small.h:op_small]`, [dp/small.h:SMALL_LIMIT],
[dp/small.c:SECOND],
[dp/small.h:only_declared], [tools/check-lessons:main], [dp/small.c]; [this link](../../dp/small.h#x) is one,
[0], [a/b] in $x[i/2]$ none.

```python dp/small.py
def twice(x):
    return 2 * x
...
    x = twice(x)
    return x
```
## Theory
![a figure](figure.svg)
## Code tour
## Run it

```sh run
echo "loss 2.5000 in 17 ms"; echo between >&2; echo "bytes 4096"
touch "$WORK/here"
```
```text output
loss 2.5... in ... ms
...
bytes 4096
```
```sh run=2
test -e "$WORK/here"; exit 2
```
```sh run long
exit 1
```
## Measure it
## Real world
## Exercises
See [Theory](#theory).
END
}
sed 's/, \[a\/b\] in/ in/' < <(right) >"$tree/$lesson"
touch "$tree/lessons/03-small/figure.svg"
mkdir "$tree/docs"
echo '| `--tp` | number |' >"$tree/docs/options.md"
"$tree/tools/check-lessons" --anchors --define "$tree/$lesson" >"$work/out" 2>&1
if tail -8 "$tree/$lesson" |
    cmp -s - <(echo; for anchor in dp/small.c:{small_forward,pair} dp/small.h:SMALL_LIMIT dp/small.c:SECOND \
    dp/small.h:only_declared tools/check-lessons:main dp/small.c; do echo "[$anchor]: ../../${anchor%:*}"; done); then
    echo "ok lessons_define_their_anchors_as_links"
else not_ok lessons_define_their_anchors_as_links "see below"; fi
cp "$tree/$lesson" "$work/right"

check() { "$tree/tools/check-lessons" "$@" "$tree/$lesson" >"$work/out" 2>&1 </dev/null; }

if check && grep -q '8 anchors, 10 links, 2 blocks run, 1 long left out' "$work/out"; then
    echo "ok lessons_a_right_one_passes"
else not_ok lessons_a_right_one_passes "it does not"; fi

# plant NAME TEXT SED...: after this edit the checker fails, and says TEXT
plant() {
    local name=lessons_notice_$1 text=$2
    shift 2
    sed "$@" "$work/right" >"$tree/$lesson"
    if cmp -s "$work/right" "$tree/$lesson"; then not_ok "$name" "the edit changes nothing"
    elif check; then not_ok "$name" "it passes"
    elif ! grep -qF -- "$text" "$work/out"; then not_ok "$name" "does not say: $text"
    else echo "ok $name"; fi
}
plant a_missing_function 'does not define smal_forward; did you mean small_forward?' 's/small_forward/smal_forward/'
plant a_name_in_a_comment 'does not define in_a_comment' 's/small_forward/in_a_comment/'
plant a_name_in_a_string 'does not define in_a_string' 's/small_forward/in_a_string/'
plant a_prototype_in_a_c_file 'does not define only_declared' 's/small_forward/only_declared/'
plant a_missing_file 'is no file; did you mean dp/small.c' 's|\[dp/small.c:pair|[dp/smal.c:pair|'
plant a_missing_file_before_a_colon '[dp/smal.c] is no file' 's|\[dp/small.c\];|[dp/smal.c]:|'
plant an_anchor_that_is_no_link_on_a_forge 'do not define its anchors as links' '/^\[dp\/small.c:pair\]: /d'
plant a_dead_link_over_two_lines '(../../dp/none.h) leads nowhere' \
    's|\[this link\](../../dp/small.h#x)|[this\nlink](../../dp/none.h)|'
plant a_dead_link '(../../dp/none.h) leads nowhere' 's|dp/small.h#x|dp/none.h|'
plant a_dead_image '(figures.svg) leads nowhere' 's|figure.svg|figures.svg|'
plant a_dead_heading 'has no heading #thoery' 's|#theory|#thoery|'
plant a_link_into_the_build 'what is built' 's|../../dp/small.h#x|../../build/trivium|'
plant a_wrong_word_in_a_link_to_the_explorer 'has tq=2, which is no option' \
    's|../../dp/small.h#x|../../build/explorer/explorer.html#tp=2\&tq=2|'
plant a_missing_section 'no section ## Real world' '/^## Real world/d'
plant sections_out_of_order 'stands where ## Code tour has to be' \
    's/^## Code tour/## X/; s/^## Run it/## Code tour/; s/^## X/## Run it/'
plant a_head_without_prerequisites '**Prerequisites**' 's/^\*\*Prerequisites\*\*/Needs/'
plant another_number 'has to be "# 03  Title"' '1s/03/04/'
plant a_wrong_output 'nearest:  bytes 4096' 's/^bytes 4096/bytes 4097/'
plant output_in_another_order 'was printed in line 1' -e '/^loss 2.5...../d' \
    -e 's/^bytes 4096/&\nloss 2.5... in ... ms/'
plant a_wrong_code 'ended with code 2, not 0' 's/sh run=2/sh run/'
plant a_failing_command 'ended with code 1, not 0' 's/^touch /false; touch /'
plant a_pipe_that_fails 'ended with code 1, not 0' 's/^touch /false | true; touch /'
plant an_output_that_is_always_right 'right whatever is printed' -e 's/^loss 2.5.*ms$/.../' -e 's/^bytes 4096$/.../'
plant an_output_of_nothing 'right behind' 's/^```sh run$/```sh/'
plant a_misspelt_fence 'is not "sh run"' 's/sh run=2/sh runs/'
plant a_quoted_line_that_is_another 'dp/small.py does not have this line there:     return 3 * x' \
    's/return 2 /return 3 /'
plant a_quoted_line_left_out \
    'dp/small.py does not have this line there:     x = twice(x)' '/return 2 \*/,/^\.\.\.$/{/\.\.\./d}'
plant a_quoted_line_out_of_order 'does not have this line there:     return 2' 's/^    return x$/    return 2 * x/'
plant a_quoted_file_that_is_gone '"python dp/smal.py" is not "python FILE"' \
    's|^```python dp/small.py|```python dp/smal.py|'
plant a_quotation_of_21_lines '21 lines of dp/small.py; at most 20 are shown' \
    's/^    return 2 \* x/&\n...\n...\n...\n...\n...\n...\n...\n...\n...\n...\n...\n...\n...\n...\n...\n.../'
plant an_open_block 'not closed' '$a ```sh'

# ---- the index of the lessons says what their heads say ----
sed 's/ none\. \*\*Time\*\* short\./: lessons 01 and 02; 05 helps. '\
'**Time**: two hours to read, three to six for the exercises./' \
    "$work/right" >"$tree/$lesson"
mkdir "$tree/docs/pytorch"
printf '| %s | [%s](%s) |\n' 03 small.py small.py 04 other.py other.py >"$tree/docs/pytorch/README.md"
touch "$tree"/docs/pytorch/{small,other}.py "$tree/lessons/other.svg"
right_row() {
    echo '# Lessons'
    echo
    echo '| lesson | figure | hours | after | PyTorch | you will |'
    echo '|---|---|---|---|---|---|'
    echo '| [03 Small](03-small/README.md) | <img src="03-small/figure.svg" width="9" alt="a figure"> '\
'| 2 + 3 to 6 | 01, 02 (05) |' \
        '[small.py](../docs/pytorch/small.py) | learn |'
}
# index NAME TEXT SED: after this edit of the index the checker fails, and says TEXT; without TEXT it passes
index() {
    local name=lessons_index_$1 code=0
    right_row | sed "$3" >"$tree/lessons/README.md"
    "$tree/tools/check-lessons" --anchors "$tree/lessons/README.md" >"$work/out" 2>&1 || code=1
    if [ $code != "$([ -z "$2" ]; echo $?)" ]; then not_ok "$name" "code $code"
    elif ! grep -qF -- "$2" "$work/out"; then not_ok "$name" "does not say: $2"
    else echo "ok $name"; fi
}
index right '' ''
index hours 'hours: the index has "2 + 3", and lessons/03-small/README.md has "2 + 3 to 6"' 's/ to 6//'
index prerequisites 'after: the index has "01, 02", and lessons/03-small/README.md has "01, 02 (05)"' 's/ (05)//'
index script 'scripts: the index has "", and' 's/\[small.py\][^ ]*//'
index picture_of_another_lesson 'the picture is none of those that' 's|03-small/figure|other|'
index picture_without_words 'has no text for those who cannot see it' 's/ alt="a figure"//'
index lesson_without_a_row 'one per lesson: lessons/03-small' '/Small/d'
mkdir "$tree/lessons/01-first"
printf '# 01  First\n\n**Prerequisites** none. **Time**: one hour to read. **You need** `bash`.\n' \
    >"$tree/lessons/01-first/README.md"
first='| [01 First](01-first/README.md) | <img src="03-small/figure.svg" alt="a figure"> | 1 |  |  | learn |'
index in_another_order '' "/Small/i $first"
index lesson_before_what_it_needs 'lessons/03-small/README.md stands before lesson 01, which it needs' "/Small/a $first"
rm -r "$tree/lessons/01-first"
rm -r "$tree/docs/pytorch" "$tree/lessons/README.md" "$tree/lessons/other.svg"

# ---- limits; what a block leaves behind ----
cp "$work/right" "$tree/$lesson"
if check --long; then not_ok lessons_long_blocks_run "exit 1 passes"
elif grep -q 'ended with code 1, not 0' "$work/out"; then echo "ok lessons_long_blocks_run"
else not_ok lessons_long_blocks_run "another reason"; fi
sed 's/^exit 1$/touch "$WORK\/there"; sleep 618 \& sleep 619/; s/ long$//' "$work/right" >"$tree/$lesson"
sed -i 's/^LIMIT_S, LONG_LIMIT_S = .*/LIMIT_S, LONG_LIMIT_S = 1, 1/' "$tree/tools/lessons/commands.py"
if check; then not_ok lessons_blocks_have_a_limit "it passes"
elif ! grep -q 'did not end within 1 s' "$work/out"; then not_ok lessons_blocks_have_a_limit "another reason"
elif pgrep -f '^sleep 61[89]$' >/dev/null; then not_ok lessons_blocks_have_a_limit "a process is left over"
elif [ ! -e "$tree/build/lessons/03/there" ]; then not_ok lessons_blocks_have_a_limit "WORK is no folder"
else echo "ok lessons_blocks_have_a_limit"; fi

# ---- what trains in the root, as a reader does, leaves nothing there, and takes nothing away ----
cp tools/lessons/commands.py "$tree/tools/lessons" # the limit as it was
# leaves NAME TEXT: what cat says of the file after the check
leaves() {
    check
    if grep -q '^FAILED' "$work/out"; then not_ok "$1" "another reason"
    elif [ "$(cat "$tree/metrics.jsonl" 2>&1)" != "$2" ]; then
        not_ok "$1" "metrics.jsonl: $(cat "$tree/metrics.jsonl" 2>&1)"
    else echo "ok $1"; fi
}
sed 's/^touch /echo row >metrics.jsonl; touch /' "$work/right" >"$tree/$lesson"
leaves lessons_leave_no_metrics "cat: $tree/metrics.jsonl: No such file or directory"
echo mine >"$tree/metrics.jsonl"
leaves lessons_leave_a_readers_metrics mine
