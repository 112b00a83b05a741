#!/bin/bash
# What a class needs besides one grade: the table of tools/grade-all, reports, late days and marks, "which claim
# fails?", similar submissions, leaderboards. Without a sandbox. Run from the project's root, with BUILD (default:
# build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash

# ---- the table, and reports ----
mkdir -p "$work"/counts/{ann,bob,eve}/26                       # an exercise that has further tests
cp lib/comm/hops/hops_levels.c "$work/counts/ann/26"
echo 'int x = y;' >"$work/counts/bob/26/hops_levels.c"
tools/grade-all --built --trusted --lessons 26 --exercise levels --out "$work/counts.csv" "$work/counts" \
    >"$work/said" 2>&1
cut -d, -f 1,5,6 "$work/counts.csv" | tail -n +2 | tr -d '\r' >"$work/columns"
n=$(sed -n 's/^ann,\([0-9]*\),.*/\1/p' "$work/columns")
[ "$(cat "$work/columns")" = "$(printf '%s\n' "ann,$n,$n" "bob,0,$n" "eve,0,$n")" ] &&
    [ "$n" -gt "$(sed -n '/claims/,$p' lessons/26-*/levels/exercise.ini | grep -c ^test)" ]
report $? "whether graded, broken or missing: there are as many claims"
mkdir -p "$work/after/ann/02"
sed '/^enum status.*{$/s//&\n    leave_later();/' "$reference" >"$work/after/ann/02/cost.c"
sed -i '1i #include <stdlib.h>\nstatic void leave(void) { abort(); }\n'\
'static void leave_later(void) { static int once; if (!once++) atexit(leave); }' "$work/after/ann/02/cost.c"
tools/grade-all --built --trusted --lessons 02 --exercise cost --out "$work/scores.csv" "$work/after" >"$work/said" 2>&1
grep -q '^ann,02,cost,[5-9][0-9],8,9,graded,' "$work/scores.csv"
report $? "what ends after its tests loses a claim, and there are no more for that"
mkdir -p "$work"/class/{ann,bob,tom} "$work/class/bob/00"
cp "$reference" "$work/class/ann"
mv "$work/class/ann/reference.c" "$work/class/ann/cost (1).c"
sed 's/2 \* (n - 1) \/ n;/(n - 1) \/ n;/' "$reference" >"$work/class/bob/cost.c"
class() { tools/grade-all --built --trusted --lessons 02 --exercise cost --deadline '2020-01-01' \
    --out "$work/class.csv" "$@" "$work/class" >"$work/said" 2>&1; }
class --reports "$work/reports" && [ "$(ls "$work/reports")" = "$(printf '%s\n' ann.txt bob.txt tom.txt)" ] &&
    cat "$work"/reports/* >>"$work/said" &&
    grep -q 'score 100 of 100' "$work/reports/ann.txt" &&
    grep -q 'there is cost (1).c instead of cost.c; late: ' "$work/reports/ann.txt" &&
    grep -A 4 'FAILS  the bus bandwidth' "$work/reports/bob.txt" | grep -q 'test_cost.c:' &&
    grep -q 'missing:' "$work/reports/tom.txt" &&
    ! grep -rqE 'alike|like (ann|bob)|unseen.c' "$work/reports" && grep -q 'like bob' "$work/class.csv"
report $? "a report for each student, with what fails and where to look, and nothing of another one"
class --reports "$work/junit" --format junit &&
    python3 tests/data/grade/junit_class.py "$work/junit" "$work/class.csv" >>"$work/said" 2>&1
report $? "or in another format: the table's scores, the claims' weights"
class --reports "$work/class/out"; [ $? = 2 ] && says "where every folder is a student's" && [ ! -e "$work/class/out" ]
report $? "reports are not written among what was handed in"
class --format junit; [ $? = 2 ] && says 'REPORTS=folder'
report $? "a format of reports needs a folder"
mkdir -p "$work/letters/ann" && cp "$reference" "$work/letters/ann/COST.c"
tools/grade-all --built --trusted --lessons 02 --exercise cost --out "$work/scores.csv" "$work/letters" \
    >"$work/said" 2>&1
grep -q '^ann,02,cost,100,.*,graded,there is COST.c instead of cost.c,' "$work/scores.csv"
report $? "a name in other letters is graded, with a remark"
mkdir -p "$work"/late/{ann,bob,eve,tom}
for student in ann bob eve; do cp "$reference" "$work/late/$student/cost.c"; done
touch -d '2026-12-01 18:00:00' "$work/late/ann/cost.c"
touch -d '2026-12-01 18:00:01' "$work/late/bob/cost.c"
touch -d '2026-12-02 18:00:01' "$work/late/eve/cost.c"
tools/grade-all --built --trusted --deadline '2026-12-01 18:00' --lessons 02 --exercise cost --out "$work/late.csv" \
    "$work/late" >"$work/said" 2>&1
cut -d, -f 1,4,7,8 "$work/late.csv" | sed 's/; like .*//; s/,like .*/,/' >"$work/columns"
[ "$(tail -n +2 "$work/columns" | tr -d '\r')" = "$(printf '%s\n' ann,100,graded, 'bob,100,graded,late: 1 day' \
    'eve,100,graded,late: 2 days' 'tom,0,missing,there is no cost.c')" ]
report $? "a deadline: begun days, for late submissions"
tools/grade-all --built --trusted --deadline tomorrow --lessons 02 --out "$work/late.csv" "$work/late" \
    >"$work/said" 2>&1; [ $? = 2 ] && says 'DEADLINE=tomorrow is no date'
report $? "a deadline that is none"

# ---- from tables to marks ----
{ head -n 1 "$work/late.csv"; printf '%s\r\n' ann,03,scale,50,4,8,graded,,, bob,03,scale,70,6,8,graded,,,3 \
    eve,03,bucket,100,8,8,graded,,,0; } >"$work/week.csv"
printf 'student,lesson,exercise,score,days late\nann,03,scale,60,0\n' >"$work/again.csv"
marks() { tools/marks --out "$work/marks.csv" "$@" >"$work/said" 2>&1; }
marks --required '02/cost 03/scale' "$work/late.csv" "$work/week.csv" "$work/again.csv" &&
    tr -d '\r' <"$work/marks.csv" >"$work/columns"
[ "$(cat "$work/columns")" = "$(printf '%s\n' 'student,exercises,mean,bonus,left out,02/cost,03/bucket,03/scale' \
    'ann,80.0,80.0,0.00,,100,0,60' \
    'bob,65.0,65.0,0.00,,90,0,40' 'eve,41.0,40.0,1.00,,80,100,0' 'tom,0.0,0.0,0.00,,0,0,0')" ] &&
    says 'all required exercises count: from 4 on'
report $? \
    "marks: late days off, a bonus, the later table counts; both of two required ones count, and the output says so"
{ head -n 1 "$work/late.csv"; printf '%s\r\n' ann,02,cost,0,0,8,missing,,, tom,02,cost,0,0,8,missing,,, \
    bob,02,cost,30,3,8,graded,,,0; } >"$work/second.csv"
marks --required '02/cost' "$work/late.csv" "$work/second.csv" && grep -q '^ann,100.0,' "$work/marks.csv" &&
    grep -q '^bob,30.0,' "$work/marks.csv" && grep -q '^tom,0.0,' "$work/marks.csv"
report $? "what a later table misses does not replace what was handed in before"
{ printf 'student,lesson,exercise,score,days late\n'; printf '%s\n' ann,03,scale,77,0 ann,03,bucket,100,0 \
    bob,03,scale,100,2 bob,03,bucket,100,0; } >"$work/two.csv"
marks --required '03/bucket 03/scale' "$work/two.csv" && grep -q '^ann,88.5,88.5,' "$work/marks.csv" &&
    grep -q '^bob,90.0,90.0,' "$work/marks.csv"
report $? "100 and 77 are not 100, and neither are 100 and 80"
marks --drop 1 --required '02/cost 03/scale' "$work/late.csv" "$work/week.csv"; [ $? = 2 ] &&
    says 'left out of 4 and more'
report $? "of fewer than four none is left out"
{ head -n 1 "$work/late.csv"; printf '%s\r\n' ann,04,states,30,3,9,graded,,,0 ann,04,bucket,90,8,9,graded,,,0 \
    bob,04,states,80,8,9,graded,,,0; } >"$work/four.csv"
four='02/cost 03/scale 04/bucket 04/states'
marks --required "$four" "$work/late.csv" "$work/week.csv" "$work/four.csv" &&
    grep -q '^ann,80.0,80.0,0.00,04/states,100,0,50,90,30' "$work/marks.csv" &&
    grep -q '^bob,70.0,70.0,0.00,04/bucket,' "$work/marks.csv" && ! says 'all required exercises count'
report $? "of four required ones the weakest is left out"
marks --drop 0 --per-day 0 --required "$four" "$work/late.csv" "$work/week.csv" "$work/four.csv" &&
    grep -q '^ann,67.5,67.5,0.00,,100,0,50,90,30' "$work/marks.csv"
report $? "or by other rules"
marks --required '02/cost 04/states' "$work/late.csv"; [ $? = 2 ] && says 'no table has 04/states; they have 02/cost'
report $? "a week's table that was forgotten is said"
marks --drop 4 --required "$four" "$work/late.csv"; [ $? = 2 ] && says 'at least one has to count'
report $? "nothing is left to count"
marks --required '02/cost 03/scale' Makefile; [ $? = 2 ] && says 'Makefile is no table of make grade-all'
report $? "what is no table"
REQUIRED='02/cost 03/scale' OUT=$work/made.csv make -s marks TABLES="$work/late.csv $work/week.csv" \
    >"$work/said" 2>&1 && says 'made.csv: 4 students, 2 required exercises, 1 further ones'
report $? "make marks"

# ---- which claim fails? ----
asked() { tools/which --built --lesson 00 "$@" >"$work/said" 2>&1; }
mkdir -p "$work"/which/{ann,bob}/00 "$work/which/eve"
asked --name ann "$work/ann1" && asked --name ann "$work/ann2" && diff -r "$work/ann1" "$work/ann2" >>"$work/said" &&
    asked --name bob "$work/bob" &&
    ! diff -r "$work/ann1" "$work/bob" >/dev/null && ! grep -lE '^# (what|claim|holds|says):' "$work"/ann1/*.patch &&
    [ "$(for p in "$work"/ann1/*.patch; do patch --dry-run -s -f -p1 <"$p" >>"$work/said" &&
    echo applies; done | wc -l)" = 6 ]
report $? "a student has the same patches each time, another one others; none tells its claim"
asked --name ann "$work/ann1"; [ $? = 2 ] && says 'is there already'
report $? "a sheet is not written over"
# what the patches' own heads say
python3 - ann >"$work/which/ann/00/which.txt" 2>"$work/said" <<'EOF'
import sys
sys.path.insert(0, "tools")
from grader import exercise, mutant, which
for i, (patch, _) in enumerate(which.drawn(exercise.lesson_named("00"), sys.argv[1]), 1):
    print(f"{i} = {mutant.head(patch, 'claim')}")
EOF
n=$(wc -l <"$work/which/ann/00/which.txt")
asked --name ann --grade "$work/which/ann/00/which.txt" && says "$n of $n" && [ "$n" -ge 4 ]
report $? "the claims that the tests break are right"
python3 - ann >"$work/words.txt" 2>"$work/said" <<'EOF'
import sys
sys.path.insert(0, "tools")
from grader import exercise, mutant, which
for i, (patch, e) in enumerate(which.drawn(exercise.lesson_named("00"), sys.argv[1]), 1):
    claim = next(c for c in e.claims if c.test == mutant.head(patch, "claim"))
    written = [claim.text, claim.text.upper() + ".", claim.text[:len(claim.text) // 2], f"{claim.test}: {claim.text}",
               claim.test[5:].replace("_", " "), claim.test + "  (int)"]
    print(f"{i}{'=:'[i % 2]} {written[i - 1]}")
EOF
asked --name ann --grade "$work/words.txt" && says "$n of $n"
report $? "a claim may be said in its words, or by a part of them that is its own"
printf '1 = the\n2 = -\n4 = replica\n' >"$work/words.txt"
asked --name ann --grade "$work/words.txt"; [ $? = 1 ] && says '1  not understood: "the" is no claim' &&
    says '4  not understood' && ! says ' right'
report $? "a word that is too short is not understood"
for i in 1 2 3 4 5 6; do echo "$i = global batch"; done >"$work/words.txt"
asked --name ann --grade "$work/words.txt"; [ $? = 1 ] &&
    says '"global batch" fits test_share_is_the_batch_over_dp and test_tokens' && says '0 of 6'
report $? "what could be any claim is not understood"
sed '1s/=.*/= test_no_such/; 2d' "$work/which/ann/00/which.txt" >"$work/which/bob/00/which.txt"
asked --name ann --grade "$work/which/bob/00/which.txt"; [ $? = 1 ] &&
    says '1  not understood: "test_no_such" is no claim' && says "2  nothing said" && says "$((n - 2)) of $n"
report $? "a wrong answer and none are said"
cp "$work/which/ann/00/which.txt" "$work/which/bob/00/which.txt"
tools/grade-all --built --trusted --lessons 00 --exercise which --out "$work/which.csv" "$work/which" >"$work/said" 2>&1
grep -q "^ann,00,which,100,$n,$n,graded,," "$work/which.csv" &&
    grep -qE "^bob,00,which,[0-9]{1,2},[0-9]+,$n,graded,fails: patch [0-9]" "$work/which.csv"
report $? "grade-all grades the sheets; what is right for one is not for another"
grep -q "^eve,00,which,0,0,$n,missing,there is no 00/which.txt," "$work/which.csv"
report $? "a sheet that was not handed in is missing"
tools/grade-all --built --trusted --lessons 00 --reports "$work/sheets" --out "$work/which.csv" "$work/which" \
    >"$work/said" 2>&1
cat "$work/sheets/ann.txt" >>"$work/said" && sed -n '/^all of them:/,$p' "$work/sheets/ann.txt" | tr -s ' ' |
    grep -q '^ 00 which 100$' &&
    grep -q '^ *00 arithmetic *0$' "$work/sheets/ann.txt" && grep -q '^  holds  patch 1$' "$work/sheets/ann.txt" &&
    grep -q 'what fails: test_' "$work/sheets/bob.txt"
report $? "a student's report has all exercises, and the sheet"

# ---- numbers of one's own ----
own() { tools/worksheet --built --lesson "$@" >"$work/said" 2>&1; }
own 04 --name ann "$work/own/ann.txt" && own 04 --name bob "$work/own/bob.txt" &&
    [ "$(grep -c ' = $' "$work/own/ann.txt")" = 4 ] &&
    ! diff <(grep '^# [^L]' "$work/own/ann.txt") <(grep '^# [^L]' "$work/own/bob.txt") >>"$work/said"
report $? "each student has other numbers"
own 04 --name ann "$work/own/ann.txt"; [ $? = 2 ] && says 'is there already'
report $? "a worksheet is not written over"
right=0
for one in {04,07,10,23}\ {ann,bob,{1..10}}; do     # the formulas, without the program
    read -r lesson student <<<"$one"
    python3 tests/data/grade/worksheet_answers.py "$lesson" "$student" >"$work/own/answers.txt"
    own "$lesson" --name "$student" --grade "$work/own/answers.txt" && right=$((right + 1))
done
[ $right = 48 ]
report $? "answers by the lesson's formulas are right, whatever was drawn"
mkdir -p "$work"/sheets4/{ann,bob,eve}/04
python3 tests/data/grade/worksheet_answers.py 04 ann |
    tee "$work/sheets4/ann/04/worksheet.txt" >"$work/sheets4/bob/04/worksheet (1).txt"
printf 'kept = 3e9 * 16 / 0\nstates: much\nfull = nan\n' >"$work/sheets4/eve/04/worksheet.txt"
own 04 --name eve --grade "$work/sheets4/eve/04/worksheet.txt"; [ $? = 1 ] &&
    says '1  not understood: "3e9 * 16 / 0"' && says '2  not understood: "much"' &&
    says '3  wrong: nan' && says '4  nothing said; see trivium show memory' && says '0 of 4'
report $? "what is no number is not understood, and what is missing is said"
python3 - >"$work/said" 2>&1 <<'EOF'
import sys
sys.path.insert(0, "tools")
from grader.worksheet import value
assert value("7e9 * 4 + 7e9 * 12 / 48") == 29.75e9 and value("(1 + 2) * -3") == -9
assert [value(text) for text in ("6 GB", "2**9", "f(1)", "1 / 0", "", "(" * 150)] == [None] * 6
EOF
report $? "a sum with parentheses is a number, and no other code is"
mkdir "$work/sheets4/tom"
tools/grade-all --built --trusted --lessons '04 02' --exercise worksheet --out "$work/own.csv" "$work/sheets4" \
    >"$work/said" 2>&1
cat "$work/own.csv" >>"$work/said"
grep -q '^ann,04,worksheet,100,4,4,graded,,' "$work/own.csv" &&
    grep -q '^bob,04,worksheet,0,0,4,graded,fails: kept; .*; there is worksheet (1).txt instead' "$work/own.csv" &&
    grep -q '^eve,04,worksheet,0,0,4,graded,fails: kept; .*; not understood: 1 2,' "$work/own.csv" &&
    grep -q '^tom,04,worksheet,0,0,4,missing,there is no 04/w' "$work/own.csv" &&
    [ "$(wc -l <"$work/own.csv")" = 5 ]
report $? "grade-all grades the sheets; a neighbor's answers are not right"

# ---- similar submissions ----
mkdir -p "$work"/alike/{ann,bob,eve,tom,zoe}/04
states=lessons/04-zero/states
cp $states/reference.c "$work/alike/ann/04/states.c"
sed -E 's/\b(kept_whole|shared|divided|left|shard)\b/my_\1/g; s|/\*.*||; s/^    / /; s/ = / =  /' $states/reference.c \
    >"$work/alike/bob/04/states.c"
cp tests/data/grade/states_apart.c "$work/alike/eve/04/states.c"
cp $states/states.c "$work/alike/tom/04/states.c"
cp $states/states.c "$work/alike/zoe/04/states.c"
tools/similar --lessons 04 "$work/alike" >"$work/said" 2>&1 && says '04 states            100 %  ann  bob' &&
    says '1 pair of 5 students'
report $? \
    "other names, comments and spaces do not make it another file; what was written apart and starters are not alike"
rm -r "$work"/alike/{tom,zoe}
tools/grade-all --built --trusted --lessons 04 --exercise states --out "$work/alike.csv" "$work/alike" \
    >"$work/said" 2>&1
says 'alike: 04 states            100 %  ann  bob' &&
    grep -q '^ann,04,states,100,\([0-9]*\),\1,graded,like bob: 100 %,' "$work/alike.csv" &&
    grep -q '^bob,.*like ann: 100 %' "$work/alike.csv" &&
    grep -q '^eve,04,states,100,\([0-9]*\),\1,graded,,' "$work/alike.csv"
report $? "a table lists similar submissions, and counts nothing off"

# ---- a leaderboard ----
mkdir -p "$work/par/ann" "$work/par/bob" "$work/par/eve" "$work/par/tom"
cp lessons/28-placements-and-flushes/par/reference.csv "$work/par/ann/par.csv"
cp lessons/28-placements-and-flushes/par/reference.csv "$work/par/tom/par.csv"
cp lessons/28-placements-and-flushes/par/par.csv "$work/par/eve/par.csv"
"$BUILD/trivium" schedule --schedule v-half --pp 4 --microbatches 8 --csv >"$work/par/bob/par.csv"
tools/grade-all --built --trusted --lessons 28 --exercise par --out "$work/par.csv" "$work/par" >"$work/said" 2>&1
[ "$(grep -A 9 '^leaderboard' "$work/said" |
    sed 's/ *$//')" = \
    "$(printf 'leaderboard of 28 par: step\n   1  26.5     ann\n   1  26.5     tom\n   3  29.5     bob\n4 lines in %s' \
    "$work/par.csv")" ] &&
    grep -q '^bob,28,par,50,3,6,graded,.*,29.5' "$work/par.csv"
report $? "a leaderboard of those who have a figure, the smallest first"
