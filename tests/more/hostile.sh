#!/bin/bash
# Hand-ins that mean harm: tools/grade-all ends within its limits, has a line for each student, and no score is higher
# than the right one. All kinds of attacks: tests/long/hostile.sh. What a class hands in by mistake: grade.sh, class.sh.
# Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash

# ---- texts that are read outside of a sandbox ----
python3 tests/data/grade/slow.py "$work" >"$work/said" 2>&1
report $? "the longest texts are read in a time that grows as they do"
python3 - >"$work/said" 2>&1 <<'EOF'
import re, sys
sys.path.insert(0, "tools")
from grader import children
def spins(): re.match("(a*)*b", "a" * 28)
def breaks(): raise KeyError("x")
def leaves(): __import__("os")._exit(3)
said = {key: (result, why)
        for key, result, why in children.each([("spins", spins), ("fine", lambda: 42), ("breaks", breaks),
                                               ("leaves", leaves)], 2, seconds=1)}
print(said)
assert said == {"spins": (None, "it kept the grader busy for more than 1 s"), "fine": (42, None),
                "breaks": (None, "KeyError: 'x'"),
                "leaves": (None, "the grader's process ended with code 3")}
EOF
report $? "what keeps the grader busy is ended, and nothing else"

# ---- names and links ----
long=$(printf 'n%.0s' {1..253})
mkdir -p "$work"/links/{ann,bob,eve,tom,sue}/04 "$work/links/$long/04" "$work/secret" "$work/links/fay"
tools/worksheet --built --lesson 04 --name ann "$work/links/ann/04/worksheet.txt" >"$work/said" 2>&1
cp "$work/links/ann/04/worksheet.txt" "$work/secret/worksheet.txt"
sed -i 's/^\([a-z]*\) = .*/\1 = a secret/' "$work/secret/worksheet.txt"
cp "$work/secret/worksheet.txt" "$work/links/$long/04"
rmdir "$work/links/bob/04" && ln -s "$work/secret" "$work/links/bob/04"
ln -s "$work/secret/worksheet.txt" "$work/links/eve/04"
mkfifo "$work/links/tom/04/worksheet.txt"
mkdir "$work/links/sue/04/worksheet.txt"
ln -s "$work/secret" "$work/links/fay/04-zero"
ln -s "$work/links/ann" "$work/links/gus"
ln -s nowhere "$work/links/hal"
mkdir -p "$work/links/"$'ian\n02 cost\x1b[2J 100'/04
tools/grade-all --built --trusted --lessons 04 --exercise worksheet --out "$work/links.csv" --reports "$work/of-links" \
    "$work/links" >"$work/said" 2>&1
[ $? = 1 ] && cp "$work/said" "$work/screen" && cat "$work/links.csv" >>"$work/said" &&
    [ "$(ls -q "$work/of-links" | wc -l)" = 9 ] &&
    grep -q "^$long,04,worksheet,0,.*no report is written: File name too long" "$work/links.csv"
report $? "a folder's name too long for a report: a line in the table, and the others have their reports"
not_read() { grep -qE "^$1,04,worksheet,0,0,4,refused,.*(is a symbolic link|is not a regular file|Is a directory)" \
    "$work/links.csv"; }
! grep -rq 'a secret' "$work/of-links" && not_read bob && not_read eve && not_read fay && not_read gus &&
    not_read hal && not_read tom && not_read sue &&
    grep -q '^ann,04,worksheet,.*graded' "$work/links.csv"
report $? "a sheet behind a link, in a pipe or of a folder is refused, and its target is not read"
[ "$(wc -l <"$work/screen")" = 11 ] && ! LC_ALL=C grep -q $'\x1b' "$work/screen"
report $? "a name is one line on the terminal, without what that obeys"

# ---- attacks on the tests and on the sandbox, answers from a library, forged verdicts ----
# shellcheck disable=SC2086 # several words; a planted mistake needs one of them
python3 tests/data/grade/hostile.py "$work/hostile" ${HOSTILE-patched library forged sandbox}

# ---- where there is no filter of system calls ----
if ! command -v bwrap >/dev/null || ! [[ $(uname -m) =~ ^(x86_64|aarch64)$ ]]; then
    echo "skip hostile: no sandbox here, or no filter"; exit
fi
mkdir -p "$work/in/ann" && cp "$reference" "$work/in/ann/cost.c"
python3 tests/data/grade/no_filter.py tools/grade-all --built --lessons 02 --exercise cost --out "$work/none.csv" \
    "$work/in" >"$work/said" 2>&1
[ $? = 1 ] &&
    grep -q '^ann,02,cost,0,0,9,error,"the grader failed: this kernel or container refuses a filter of system '\
'calls (seccomp)' "$work/none.csv"
report $? "no filter, no score: a line says why"
