#!/bin/bash
# tools/grade and tools/grade-all, with lesson 02's exercise "cost": what they accept, refuse and say, and that nothing
# which a submission does reaches another one, or the outside.
# Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash

# ---- one submission ----
cp "$reference" "$work/cost.c"
grade "$work/cost.c" && says 'score 100 of 100'
report $? "full marks, and exit code 0"
sed 's/2 \* (n - 1) \/ n;/(n - 1) \/ n;/' "$reference" >"$work/my.c"
grade --exercise cost "$work/my.c"; [ $? = 1 ] && [ "$(grep -c '^  FAILS' "$work/said")" = 1 ] &&
    says 'look: lesson 02, "Bus bandwidth"' && says 'alone: ' &&
    says "next: $(sed -n 's/^  FAILS  //p' "$work/said")"
report $? "one claim fails: where to look, how to run it alone"
echo 'int x = y;' >>"$work/my.c"
grade --exercise cost "$work/my.c"; [ $? = 1 ] && says "cost.c:" && says 'help: a name that is not declared' &&
    says 'score 0 of 100'
report $? "a file that does not compile"
grade03() {
    sed "$1" "$scale/reference.c" >"$work/scale.c"
    tools/grade --built --lesson 03 "$work/scale.c" >"$work/said" 2>&1
}
line() { grep -nF -- "$1" "$work/scale.c" | head -n 1 | cut -d: -f1; } # of what was planted
grade03 's/\[1 + SCALE_C\] = {0};/[1 + SCALE_C] = {0}/'
sed -n 5p "$work/said" | grep -q "^    scale.c:$(($(line '{0}') + 1)):5: error: expected .* before .* (in TRY)\$" &&
    ! says status.h &&
    says 'help: the line before'
report $? "an error in a macro is shown at the line that uses it"
grade03 's/^    \*loss = sum.*/&\n    ((double *)NULL)[n] = 1;/'
says "scale.c:$(line NULL), in scale_step: a WRITE at 0x" && says 'score 25 of 100'
report $? "a null pointer: the learner's line"
grade03 's/^    \*loss = sum.*/&\n    for (int i = 0; i < 1 << 20; i++) g[i] = 0;/'
says "scale.c:$(line '1 << 20'), in scale_step: stack-overflow" && ! says 'no score'
report $? "a loop that overwrites the test's memory: the learner's line"
grade03 's/^    TRY(comm_all_reduce(group, sum.*/    if (sum[0] == 0 \&\& all > 0) return OK;\n&/'
says 'rank 1 calls all_reduce (max) of 2 fp64, rank 0 all_reduce of 5 fp64' && says 'score 37 of 100'
report $? "a rank that skips an all-reduce: which rank calls what"
# shellcheck disable=SC2094 # the command is read before it runs
bash -c "$(sed -n 's/^alone: //p' "$work/said")" >"$work/said" 2>&1; says 'rank 1 calls all_reduce (max)'
report $? "alone: it can be pasted, by root as well"
# shellcheck disable=SC2086 # several words
make -s BUILD_NAME="$BUILD" $settings grade LESSON=02 FILE="$work/my.c" EXERCISE=cost >"$work/said" 2>&1 &&
    says 'score 0 of 100' && ! says 'make: '
report $? "make grade is content with any score"
grade "$work/my.c"; [ $? = 2 ] && says 'EXERCISE=cost'
report $? "a name that does not tell the exercise: the list"
cp "$reference" "$work/Cost (1).c"
grade "$work/Cost (1).c" && says 'score 100 of 100'
report $? "the name of a second download tells the exercise"

# ---- a folder, and reports for other programs ----
mkdir "$work/mine" "$work/mine/02"
cp "$reference" "$work/mine/Cost.C"
grade --exercise cost "$work/mine" && says 'there is Cost.C instead of cost.c' && says 'score 100 of 100'
report $? "a name in other letters is found in a folder, and said"
cp "$reference" "$work/mine/COST.c"
grade --exercise cost "$work/mine"; [ $? = 1 ] && says 'there is COST.c and Cost.C instead of cost.c' && says 'missing'
report $? "two such names are not chosen from"
rm "$work/mine/COST.c" "$work/mine/Cost.C"
for copy in 'cost (1).c' 'cost(12).c' 'cost-2.c' 'Cost - Copy.c'; do
    cp "$reference" "$work/mine/$copy"
    grade --exercise cost "$work/mine" && says "there is $copy instead of cost.c" && says 'score 100 of 100'
    report $? "a second download is found in a folder, and said: $copy"
    rm "$work/mine/$copy"
done
cp "$reference" "$work/mine/cost (1).c"
cp "$reference" "$work/mine/cost (2).c"
grade --exercise cost "$work/mine"; [ $? = 1 ] &&
    says 'there is cost (1).c and cost (2).c instead of cost.c: keep one, under that name' && says missing
report $? "two of them are not chosen from, and the remedy is said"
echo 'int x = y;' >"$work/mine/cost.c"
grade --exercise cost "$work/mine"; [ $? = 1 ] &&
    says 'there is cost.c and cost (1).c and cost (2).c: cost.c is graded' && says 'does not compile'
report $? "what is named as it should be is graded, and the others are named"
rm "$work"/mine/*.c
cp "$reference" "$work/mine/02/cost (1).c"
cp "$reference" "$work/mine/cost.c"
grade --exercise cost "$work/mine" && says 'there is cost.c and 02/cost (1).c: cost.c is graded'
report $? "before what is nearly so, wherever that lies"
mv "$work/mine/02/cost (1).c" "$work/mine/02/cost.c"
echo 'int x = y;' >"$work/mine/cost.c"
grade --exercise cost "$work/mine" && says 'there is 02/cost.c and cost.c: 02/cost.c is graded'
report $? "of two files for one exercise both are named, and which is graded"
rm "$work"/mine/*.c
sed -e '1i #warning a & b <c>' -e 's/2 \* (n - 1) \/ n;/(n - 1) \/ n;/' "$reference" >"$work/mine/02/cost.c"
for format in json junit gradescope classroom; do
    grade --exercise cost --format $format --out "$work/said.$format" "$work/mine"
    [ $? = 1 ] && says 'score 85 of 100' &&
        python3 tests/data/grade/formats.py $format "$work/said.$format" >>"$work/said" 2>&1
    report $? "$format has the claims of the report, and the one that fails"
done
printf 'int x = "\033[1m\377<&>" + ;\n' >"$work/mine/02/cost.c"
grade --exercise cost --format junit --out "$work/said.junit" "$work/mine"
python3 -c "import sys, xml.etree.ElementTree as x; sys.exit(len(x.parse(sys.argv[1]).findall('.//failure')) < 7)" \
    "$work/said.junit" >>"$work/said" 2>&1
report $? "what does not compile is XML all the same, and every claim fails"
grade --format jnit "$work/mine"; [ $? = 2 ] && says 'FORMAT=jnit is not known; the formats are text, json'
report $? "an unknown format: the list"
export GRADE_USER=$((60000 + $$ % 4000)) # what runs as this user is ended: no other process may be
if [ "$(id -u)" = 0 ]; then
    cp "$reference" "$work/mine/02/cost.c"
    sed -i "/^enum status.* {\$/s//&\n    if (can_do_harm()) return FAIL(E_INTERNAL, \"harm\");/" "$work/mine/02/cost.c"
    python3 tests/data/grade/hostile.py --near tests/data/grade/other_user.c >"$work/other_user.c"
    sed -i "1r $work/other_user.c" "$work/mine/02/cost.c"
    grade --exercise cost --user "$GRADE_USER" "$work/mine"
    report $? "as another user, that can neither read a secret nor replace the program"
    grade --exercise cost "$work/mine"; [ $? = 1 ] && says harm
    report $? "which as root it could"
fi

# ---- hidden tests ----
patch -s -o "$work/cost.c" "$reference" tests/mutants/lessons/02-*/cost-link-by-heart.patch
grade "$work/cost.c" && says 'score 100 of 100' && ! says hidden
report $? "a learner's grading has no hidden test"
grade --staff "$work/cost.c"; [ $? = 1 ] && says 'score 88 of 100' && grep -A 1 '^  FAILS' "$work/said" |
    grep -v 'FAILS' >"$work/below"
says 'FAILS  hidden: test_crossover_on_links_not_seen' && grep -q '^  holds\|^$' "$work/below" &&
    ! says unseen.c && ! says alone:
report $? "the report names a hidden test that fails, and says nothing else of it"
grade --staff --format junit "$work/cost.c"; [ $? = 1 ] && says 'failures="1"' && ! says unseen.c &&
    ! says '<failure message="[^"]'
report $? "by other formats likewise"

# ---- what is linked ----
# An exercise's own test includes test_codec.h, and the exercise names that suite, too.
mkdir "$work/own" && echo "own.o: lib/ops/test_codec.h" >"$work/own/test_own.c.d"
python3 - "$work/own" >"$work/said" 2>&1 <<'EOF'
import sys
from types import SimpleNamespace
sys.path.insert(0, "tools")
from grader import build
base = build.Base.__new__(build.Base)
base.folder, base.settings = sys.argv[1], build.Settings(True)
base.exercise, base.bring = SimpleNamespace(own_tests=lambda: ["test_own.c"]), lambda objects: None
suite = base.object_of("lib/ops/test_codec.c")
linked = base.with_helpers([suite])
sys.exit(f"linked: {linked}" if linked.count(suite) != 1 else 0)
EOF
report $? "a suite is linked once, however many tests need it"

# ---- what an exercise begins with, and the program with a file in it ----
patch=$(echo tests/museum/"$(sed -n 's/^starter_patch *= museum //p' lessons/17-*/hunt-dp/exercise.ini)"-*.patch)
tools/mine --starter --lesson 17 --exercise hunt-dp "$work/my/dp.c" >"$work/said" 2>&1 &&
    patch -s -R "$work/my/dp.c" "$patch" &&
    cmp "$work/my/dp.c" dp/dp.c >>"$work/said" 2>&1
report $? "a bug hunt's starter is the file with the patch"
tools/mine --starter --lesson 17 --exercise hunt-dp "$work/my/dp.c" >"$work/said" 2>&1; [ $? = 2 ] &&
    says 'is there already'
report $? "a starter is not written over work"
# shellcheck disable=SC2086 # several words
make -s BUILD_NAME="$BUILD" $settings mine PATCH=tests/museum/12-sp-final-norm-partial.patch >"$work/said" 2>&1 &&
    ! "$BUILD/mine/trivium" nothing >>"$work/said" 2>&1 && says 'lib/run/combine.c as 12-'
report $? "a program is made with a published bug"
tools/mine --lesson 02 --exercise cost "$reference" >"$work/said" 2>&1; [ $? = 2 ] &&
    says 'replaces no file of the program'
report $? "an exercise that replaces nothing makes no program"

# ---- many ----
submit() { # STUDENT [FIRST]: with that at the beginning of each function
    mkdir -p "$work/in/$1/02"
    sed "${2:+s/^[a-z].*) {\$/& $2/}" "$reference" >"$work/in/$1/02/cost.c"
}
row() { grep -qE "^$1,02,cost,$2" "$work/scores.csv"; } # STUDENT SCORE,...
submit ann
tools/grade-all --built --trusted --lessons 02 --exercise cost --out "$work/scores.csv" "$work/in" >"$work/said" 2>&1
row ann 100,9,9,graded,,
report $? "a table of scores, without a sandbox for those that are trusted"

if ! command -v bwrap >/dev/null; then echo "skip grade-all: there is no bubblewrap"; exit; fi
submit loop 'for (volatile int i = 0; i >= 0; i = 1) {}'
submit past 'double all[4] = {0}, *volatile at = all; volatile double x = at[4]; (void)x;'
submit zoe
submit '=1+1' 'return E_INTERNAL;'
submit $'caf\xe9'
mkdir -p "$work"/in/{link,pipe,dir/02/cost.c,none,far}
ln -s "$PWD/$reference" "$work/in/link/cost.c"
mkfifo "$work/in/pipe/cost.c"
ln -s "$work/in/ann/02" "$work/in/far/02"
rm "$work/scores.csv"
tools/grade-all --built --jobs 2 --limit 4 --lessons 02 --exercise cost --out "$work/scores.csv" "$work/in" \
    >"$work/said" 2>&1 &
until [ -f "$work/scores.csv" ] || ! kill -0 $!; do sleep 0.1; done 2>"$work/kill"
kill -0 $! 2>"$work/kill"
early=$?
wait $!
if grep -q 'bubblewrap does not work here' "$work/said"; then
    echo "skip grade-all: $(grep -m1 'bubblewrap' "$work/said")"; exit
fi
cat "$work/scores.csv" >>"$work/said"
report $early "a score is in the table while others are still graded"
for student in ann zoe 'caf\\udce9'; do row $student 100; report $? "$student, among all these, has full marks"; done
row loop 0,.*graded; report $? "an endless loop ends at its limit"
row past '[1-9][0-9],.*graded'; report $? "a read past an array is seen in the sandbox, too"
for student in link pipe dir far; do row $student 0,.*refused; report $? "refused: $student for a file"; done
row none 0,.*missing; report $? "nothing handed in is a line, too"
grep -q "^'=1+1,02,cost," "$work/scores.csv"; report $? "a student's name is no formula"
