#!/bin/bash
# What can be checked of the documentation without building it: headers say what a caller has to know (and
# tools/check-headers notices where they do not), the page of options is what the program says, pages become what
# Doxygen reads.
#
# Run from the project's root. BUILD: where the program is (default: build).
# shellcheck disable=SC2016 # formulas
set -u -o pipefail
command -v python3 >/dev/null || { echo "skip docs there is no python3"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' "$work/out"
}

if tools/check-headers >"$work/out" 2>&1; then echo "ok docs_headers_say_what_callers_must_know"
else not_ok docs_headers_say_what_callers_must_know "see below"; fi
if tools/check-deps >"$work/out" 2>&1; then echo "ok docs_the_picture_of_includes_is_true"
else not_ok docs_the_picture_of_includes_is_true "see below"; fi
if tools/check-style >"$work/out" 2>&1; then echo "ok docs_lines_and_phrases_are_in_style"
else not_ok docs_lines_and_phrases_are_in_style "see below"; fi
if tools/check-map >"$work/out" 2>&1; then echo "ok docs_every_folder_is_on_the_map_and_names_its_files"
else not_ok docs_every_folder_is_on_the_map_and_names_its_files "see below"; fi
if tools/sizes >"$work/out" 2>&1; then echo "ok docs_no_part_is_over_its_budget"
else not_ok docs_no_part_is_over_its_budget "see below"; fi
objects=${BUILD:-build}/obj                                   # of make check-build; a GPU's have arrows of their own
if [ ! -f "$objects/lib/base/status.o" ] || grep -qs TRIVIUM_CUDA "$objects/cuda.flags"; then
    echo "skip docs_no_more_circles this is no build for CPUs"
elif tools/circles >"$work/out" 2>&1; then echo "ok docs_no_more_circles"
else not_ok docs_no_more_circles "see below"; fi
if tools/docs/options --check >"$work/out" 2>&1; then echo "ok docs_options_are_those_of_the_program"
else not_ok docs_options_are_those_of_the_program "see below"; fi

for file in planner/explorer tests/fuzz tests/stress; do
    LC_ALL=C make -nf $file/Makefile 2>&1 | grep 'No rule'
done >"$work/out"
if [ ! -s "$work/out" ]; then echo "ok docs_makefiles_name_files_that_are_there"
else not_ok docs_makefiles_name_files_that_are_there "see below"; fi

for figure in docs/figures/*.svg docs/figures/*.png; do
    grep -qrF --include='*.md' "figures/${figure##*/}" README.md lessons docs/*.md */README.md ||
        grep -q '<title>Not in a handout' "$figure" || echo "$figure"
done >"$work/out"
if [ ! -s "$work/out" ]; then echo "ok docs_every_figure_is_shown_by_a_page"
else not_ok docs_every_figure_is_shown_by_a_page "these are not"; fi

# A folder's index has a line for each page and for each thing in it: none is missing, no page is there twice.
lines() { grep -cF -e "]($2)" -e "\`$2\`" "$1/README.md"; } # FOLDER NAME: how many lines of the index name it
{
    find docs -name '*.md' ! -path docs/README.md -printf '%P\n' | sort | while read -r page; do
        [ "$(lines docs "$page")" = 1 ] || echo "docs/README.md has $(lines docs "$page") lines of docs/$page"
    done
    for thing in tools/* configs/* tests/*/ tests/run tests/check tests/kernels tests/coverage tests/total; do
        folder=${thing%%/*} name=${thing#*/}
        case $name in README.md | __pycache__*) continue ;; esac
        [ ! -d "$thing" ] || name=${name%/}/
        [ "$(lines "$folder" "$name")" -ge 1 ] || echo "$folder/README.md has no line of $name"
    done
} >"$work/out"
if [ ! -s "$work/out" ]; then echo "ok docs_indexes_name_every_page_and_tool"
else not_ok docs_indexes_name_every_page_and_tool "see below"; fi

# A script of tests/run is a file or a line of tests/again, and one of the two.
sed -n 's/^\(tests[^ ]*\): .*/\1/p' tests/again | sort >"$work/again"
{ uniq -d "$work/again"; xargs ls 2>&1 <"$work/again" | grep -v '^ls: '; } >"$work/out"
if [ ! -s "$work/out" ]; then echo "ok docs_each_script_of_one_command_is_there_once"
else not_ok docs_each_script_of_one_command_is_there_once "these are twice"; fi

# The how-to pages are built and tested in check-all (tests/long/how_to.sh); whether their patches still fit shows at
# once.
for page in docs/how-to/*.md; do
    grep -q ' file=' "$page" || continue
    rm -rf "$work/tree" && mkdir "$work/tree"
    sed -n 's|^--- a/||p' "$page" | sort -u | xargs -r cp --parents -t "$work/tree"
    tools/docs/extract "$page" "$work/tree" 2>&1 >/dev/null || echo "$page"
    find "$work/tree" -name '*.[ch]' -o -name '*.cu' |
        xargs awk -v page="$page" 'length > 120 { print page ": " $0 }' >>"$work/wide"
done >"$work/out" 2>&1
if [ ! -s "$work/out" ]; then echo "ok docs_patches_of_the_how_to_pages_apply"
else not_ok docs_patches_of_the_how_to_pages_apply "see below"; fi
sort "$work/wide" >"$work/out"
if [ ! -s "$work/out" ]; then echo "ok docs_sources_of_the_how_to_pages_have_120_columns"
else not_ok docs_sources_of_the_how_to_pages_have_120_columns "these are wider"; fi

# A mistake that is planted is a patch, too: of the tests, of the museum, of an exercise.
for patch in $(find tests/mutants -name '*.patch') tests/museum/*.patch; do
    [ ! -f "$patch" ] || git apply --check "$patch"           # a handout has none of the lessons'
done >"$work/out" 2>&1
if [ ! -s "$work/out" ]; then echo "ok docs_planted_mistakes_apply"
else not_ok docs_planted_mistakes_apply "see below"; fi

# README tells how long the files are that a newcomer reads first.
grep -oE '\]\([^) ]+\) \([0-9]+ lines\)' README.md | tr '()]' '   ' >"$work/out"
while read -r file lines _; do echo "$(wc -l <"$file") $lines $file"; done <"$work/out" | awk '$1 != $2' >"$work/wrong"
if [ "$(wc -l <"$work/out")" = 3 ] && [ ! -s "$work/wrong" ]; then
    echo "ok docs_readme_tells_the_lengths_of_three_files"
else not_ok docs_readme_tells_the_lengths_of_three_files "is, said: $(cat "$work/wrong")"; fi

# The pages in Chinese: README has the English one's commands and what they print, and the glossary its words, with a
# row for the way back.
python3 - >"$work/out" <<'END'
import re
def text(name):
    return open(f"docs/{name}", encoding="utf-8").read()
def blocks(name):
    return re.findall(r"^```(\w+).*\n((?:.*\n)*?)```$", text(name), re.M)
def rows(text):
    return [tuple(cell.strip() for cell in row.split("|")[1:-1]) for row in re.findall(r"^\| .*", text, re.M)]
english, chinese = blocks("../README.md"), blocks("zh/README.md")
if len(english) < 8 or english != chinese:
    print("docs/zh/README.md: not README.md's blocks, of", len(english), "from", [a == b for a, b in
          zip(english, chinese)])
forth, back = map(rows, text("zh/glossary.md").split("\n## 从中文查英文\n"))
listed = {row[0] for row in rows(text("glossary.md"))} - {"word", "here"}
print(*(f"docs/zh/glossary.md: no row of {word}\n" for word in listed - {row[0] for row in forth}), sep="", end="")
there = {(word, row[0]) for row in forth if row[0] != "英文" for word in row[1].split("，")}
print(*(f"docs/zh/glossary.md: {row} is in one direction only\n" for row in there ^ set(back[1:])), sep="", end="")
sounds = [row[0].encode("gb18030") for row in back[1:]]
if len(listed) < 100 or sounds != sorted(sounds):
    print("docs/zh/glossary.md: too few words, or the way back is not in the order of sounds")
END
if [ ! -s "$work/out" ]; then echo "ok docs_pages_in_chinese_have_the_english_ones_commands_and_words"
else not_ok docs_pages_in_chinese_have_the_english_ones_commands_and_words "see below"; fi

# What a page's commands write is ignored by git, so that a tour leaves a clean tree. this.ini, plan.ini, report: the
# defaults.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    pages=(README.md docs/using.md docs/oracle.md planner/README.md)
    grep -hoE '^    .* --(out|save|to|write|init|resume) +[^ ]+' "${pages[@]}" |
        grep -oE -- '--(out|save|to|write) +[^ ]+' |
        grep -vE -- '--to (hf|llmc)$' | awk '{ print $2 }' | sort -u >"$work/written"
    printf '%s\n' this.ini plan.ini report metrics.jsonl metrics-1.jsonl >>"$work/written"
    for name in $(cat "$work/written"); do
        git check-ignore -q "$name/" || git check-ignore -q "$name" || echo "$name"
    done >"$work/out"
    if [ "$(wc -l <"$work/written")" -ge 12 ] && [ ! -s "$work/out" ]; then echo "ok docs_what_a_tour_writes_is_ignored"
    else not_ok docs_what_a_tour_writes_is_ignored "of $(wc -l <"$work/written") names these are not in .gitignore"; fi
fi

# ---- subjects of commits, in a repository of their own ----
history=$work/history
mkdir -p "$history/tools"
cp tools/check-style "$history/tools"
echo 'int small;' >"$history/small.c"
in_history() { git -C "$history" -c user.name=a -c user.email=a@b -c commit.gpgsign=false "$@"; }
long=$(printf 'A subject of %060d' 0)
subjects() { # NAME TEXT SUBJECT: a commit with this subject is refused, with TEXT; without TEXT it passes
    local name=docs_subject_$1 code=0
    in_history commit -q --allow-empty -m "$3"
    SINCE=HEAD~1 "$history/tools/check-style" >"$work/out" 2>&1 || code=1
    if [ $code != "$([ -z "$2" ]; echo $?)" ]; then not_ok "$name" "code $code"
    elif grep -qF -- "${2:-3 passed, 0 failed}" "$work/out"; then echo "ok $name"
    else not_ok "$name" "does not say: ${2:-3 passed, 0 failed}"; fi
}
if command -v git >/dev/null; then
    in_history init -q
    in_history add -A
    in_history commit -q -m "$long"
    subjects a_fact '' "${long:0:72}"
    subjects of_73_characters '73 characters; the limit is 72' "$long"
    subjects an_order '"Add" begins an order' 'Add a check of subjects'
    subjects a_noun '' 'Change of a rank ends its epoch'
    subjects to_be_squashed 'it must be squashed' 'fixup! A fact'
    subjects with_a_full_stop 'it ends with a full stop' 'Subjects have no full stop.'
    printf '#!/bin/bash\necho %0115d\n' 0 >"$history/tools/long" # a script without an ending
    printf '# %0119d\n' 0 >"$history/long.py"
    subjects beside_long_lines 'long.py:1: 121 columns; the limit is 120' 'Lines of code are refused, too'
    if [ "$(grep -c 'columns; the limit' "$work/out")" = 1 ]; then
        echo "ok docs_lines_of_120_columns_pass"
    else not_ok docs_lines_of_120_columns_pass "says more"; fi
    printf '# %0119d\n' 0 >>"$history/tools/long"
    subjects beside_a_long_script 'tools/long:3: 121 columns' 'A script is code'
    rm "$history/tools/long" "$history/long.py"
    git clone -q --depth 1 "file://$history" "$work/shallow"
    SINCE=$(in_history rev-parse HEAD~1) "$work/shallow/tools/check-style" >"$work/out" 2>&1
    if grep -q '^skip the subjects' "$work/out" && grep -qx '2 passed, 0 failed' "$work/out"; then
        echo "ok docs_subject_beyond_a_shallow_clone"
    else not_ok docs_subject_beyond_a_shallow_clone "is not skipped"; fi
fi

# ---- the forge's workflow runs what continuous integration runs, with all history and without a secret ----
workflow=.github/workflows/check.yml
if [ -f "$workflow" ]; then                                   # a handout has none
    wrong=
    for line in 'run: .ci/run' 'timeout-minutes: 90' 'image: debian:12' 'fetch-depth: 0'; do
        grep -qE "^ +$line( |\$)" "$workflow" || wrong+="no line $line; "
    done
    [ -x .ci/run ] || wrong+=".ci/run is no program; "
    ! grep -q 'secrets' "$workflow" || wrong+="it needs a secret; "
    if [ -z "$wrong" ]; then
        echo "ok docs_the_workflow_runs_ci"
    else
        echo "not ok docs_the_workflow_runs_ci: $wrong"
    fi
fi

# ---- a part that is too large, and files that need each other, in a tree of their own ----
large=$work/large
mkdir -p "$large/tools" "$large/dp"
cp tools/sizes "$large/tools"
sed 's/^CEILING = [0-9]*, [0-9]*/CEILING = 0, 0/' tools/circles >"$large/tools/circles"
chmod +x "$large/tools/circles"
yes 'int x;' | head -801 >"$large/dp/dp.c"
touch "$large/README.md"
too_much() { # NAME TOOL TEXT
    if (cd "$large" && "tools/$2") >"$work/out" 2>&1; then not_ok "docs_$1" "it passes"
    elif grep -qE -- "$3" "$work/out"; then echo "ok docs_$1"
    else not_ok "docs_$1" "does not say: $3"; fi
}
if command -v git >/dev/null; then
    git -C "$large" init -q
    git -C "$large" add -A
    too_much a_line_too_many sizes '^dp +801 of +800  over$'
fi
echo '#include "dp/b.h"' >"$large/dp/a.h"
echo '#include "dp/a.h"' >"$large/dp/b.h"
too_much a_circle_too_many circles '^1 circle, 2 files; at most 0'

# ---- a map with something missing, in a tree of its own ----
map=$work/map
mkdir -p "$map/tools" "$map/lib/small" "$map/dp"
cp tools/check-map "$map/tools"
touch "$map"/{dp/dp.c,lib/small/add_cpu.c,lib/small/example_add.c}
on_map() { # NAME TEXT FILE SED: after this edit of a page the check fails and says TEXT; without TEXT it passes
    echo '| `dp` data parallelism; `lib` the library; `tools` what make runs |' >"$map/README.md"
    printf '# %s\n\n%s\n' 'dp: data parallelism' 'Begin with `dp.c`.' >"$map/dp/README.md"
    printf '# %s\n\n%s\n' 'lib: the library' '* [`small/`](small/README.md): small sums' >"$map/lib/README.md"
    printf '# %s\n\n%s\n' 'lib/small: small sums' '* `add.h`: a sum' >"$map/lib/small/README.md"
    echo '# tools: what make runs' >"$map/tools/README.md"
    echo '/* Sums. */' | tee "$map/dp/dp.h" >"$map/lib/small/add.h"
    sed -i "$4" "$map/$3"
    "$map/tools/check-map" >"$work/out" 2>&1
    if grep -qF -- "${2:-4 passed, 0 failed}" "$work/out"; then echo "ok docs_map_$1"
    else not_ok "docs_map_$1" "does not say: ${2:-4 passed, 0 failed}"; fi
}
on_map right '' README.md ''
on_map another_line 'README.md: the map must say of `dp`: sums' dp/README.md '1s/data parallelism/sums/'
on_map another_line_of_a_room 'lib/README.md: the map must say of `small`: small sums' \
    lib/README.md 's/small sums/sums/'
on_map without_a_first_line 'lib/small/README.md: the first line must be "# lib/small: LINE"' lib/small/README.md 1d
on_map without_a_file 'lib/small/README.md does not name add_cpu.c' lib/small/README.md 's/add.h/the sum/'
on_map without_the_head_of_a_header 'dp/dp.h: the first line must be a comment' dp/dp.h '1s/.*/void f(void);/'
on_map with_a_file_that_is_gone 'dp/README.md names gone.c, which is not there' dp/README.md 's/dp.c/dp.c`, `gone.c/'

# ---- headers with something missing, in a tree of their own ----
tree=$work/tree
mkdir -p "$tree/tools" "$tree/dp"
cp -r tools/check-headers tools/lessons "$tree/tools"
cat >"$tree/dp/small.c" <<'END'
#include "dp/small.h"
static enum status deeper(void) { return MPI_Barrier(0) ? E_COMM : OK; }
enum status small_meet(void) { return deeper(); }
END
right() {
    cat <<'END'
/** Everybody comes. @collective{world} @errors E_COMM */
enum status small_meet(void);
/** x (n) borrowed. @errors none */
enum status small_sum(const double *x, int n);
void small_again(void);

int small_count(void); /* of what there is */
static inline int small_one(void) { return 1; }
END
}
headers() { # NAME TEXT SED: after this edit the check fails and says TEXT; without, it passes
    local name=docs_headers_$1
    right | sed "$3" >"$tree/dp/small.h"
    if "$tree/tools/check-headers" >"$work/out" 2>&1; then
        if [ -z "$2" ]; then echo "ok $name"; else not_ok "$name" "it passes"; fi
    elif [ -n "$2" ] && grep -qF -- "$2" "$work/out"; then echo "ok $name"
    else not_ok "$name" "does not say: $2"; fi
}
headers right '' ''
headers without_a_comment 'small_again has no comment' 's/^void small_again/\n&/'
headers without_errors 'small_sum returns enum status' 's/@errors none//'
headers without_collective 'small_meet communicates' 's/@collective{world}//'
headers without_a_word_on_an_array 'does not speak of x' 's/x (n) borrowed/Adds/'

# ---- pages, as Doxygen gets them ----
mkdir -p "$tree/docs"
cp -r tools/docs "$tree/tools"
cat >"$tree/docs/page.md" <<'END'
# A page of `code`

Costs $2S(n-1)/n$ and $5; [dp/small.c:small_meet], [the options](other.md#a-part), a@b, --dp 2, `--tp 2`.

$$
x_i \\ y
$$

See [`dp/small.c`](other.md).

## 张量

```sh run
echo $HOME --x @y
```

| <img src="small.svg" width="150" alt="a --small one"> | 2 |
END
echo '# Other' >"$tree/docs/other.md"
"$tree/tools/docs/filter" "$tree/docs/page.md" >"$work/out" 2>&1
page() { # NAME TEXT
    if grep -qxF -- "$2" "$work/out"; then echo "ok docs_page_$1"; else not_ok "docs_page_$1" "no line: $2"; fi
}
page title '# A page of code {#docs_page_page}'
page prose \
    'Costs @f$2S(n-1)/n@f$ and $5; <a href="source:dp/small.c:3" class="anchor">'\
'<code>dp/small.c:small_meet</code></a>, '\
'<a href="docs_other_page.html#docs_other_page_a_part">the options</a>, a\@b, \--dp 2, `--tp 2`.'
page heading_in_chinese '## 张量 {#docs_page_page_5f2091cf}'
page link_in_whose_text_is_a_file 'See <a href="docs_other_page.html">`dp/small.c`</a>.'
page picture_in_a_table '| <img class="figure" src="files/docs/small.svg" width="150" alt="a --small one"/> | 2 |'
page formula 'x_i \\ y'
page code 'echo $HOME --x @y'
