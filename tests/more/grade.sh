#!/bin/bash
# tools/grade, tools/grade-all and tools/handout, with lesson 02's exercise "cost": what they accept, refuse and say, and that nothing
# which a submission does reaches another one, or the outside. Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
export BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$(echo lessons/02-*/cost) reference=$folder/reference.c
if [ ! -f "$reference" ]; then echo "skip grade: no reference of lesson 02, cost (a handout)"; exit; fi

if grep -q fsanitize=address "$BUILD/settings"; then echo "skip grade: a sanitizer's build wants more addresses than a submission may have"; exit; fi

# so that make finds all of it current
settings="CUDA=$(grep -c TRIVIUM_CUDA "$BUILD/flags") $(grep -q -- -Werror "$BUILD/flags" && echo WERROR=1)"

report() { if [ "$1" = 0 ]; then echo "ok grade: $2"; else echo "not ok grade: $2"; sed 's/^/    /' "$work/said"; fi; }
grade() { tools/grade --built --lesson 02 "$@" >"$work/said" 2>&1; }
says() { grep -qF -- "$1" "$work/said"; }

# ---- one submission ----
cp "$reference" "$work/cost.c"
grade "$work/cost.c" && says 'score 100 of 100'
report $? "full marks, and exit code 0"
sed 's/2 \* (n - 1) \/ n;/(n - 1) \/ n;/' "$reference" >"$work/my.c"
grade --exercise cost "$work/my.c"; [ $? = 1 ] && [ "$(grep -c '^  FAILS' "$work/said")" = 1 ] && says 'look: lesson 02, "Bus bandwidth"' && says 'alone: '
report $? "one claim fails: where to look, how to run it alone"
echo 'int x = y;' >>"$work/my.c"
grade --exercise cost "$work/my.c"; [ $? = 1 ] && says "cost.c:" && says 'help: a name that is not declared' && says 'score 0 of 100'
report $? "a file that does not compile"
# of lesson 03, whose tests need several ranks
scale=$(echo lessons/03-*/scale)
grade03() {
    sed "$1" "$scale/reference.c" >"$work/scale.c"
    tools/grade --built --lesson 03 "$work/scale.c" >"$work/said" 2>&1
}
line() { grep -nF -- "$1" "$work/scale.c" | head -n 1 | cut -d: -f1; } # of what was planted
grade03 's/\[1 + SCALE_C\] = {0};/[1 + SCALE_C] = {0}/'
sed -n 5p "$work/said" | grep -q "^    scale.c:$(($(line '{0}') + 1)):5: error: expected .* before .* (in TRY)\$" && ! says status.h &&
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
cat "$reference" - >"$work/cost.c" <<<'static volatile int link_early; __attribute__((constructor)) static void early(void) { link_early = 1; }'
grade "$work/cost.c"; [ $? = 1 ] && says 'a constructor or destructor'
report $? "a constructor is refused"
{ cat "$reference"; echo 'int main(void); int main(void) { return 0; }'; } >"$work/cost.c"
grade "$work/cost.c"; [ $? = 1 ] && says 'it defines main'
report $? "main is refused"
{ cat "$reference"; echo 'extern void *test_suites; void *mine(void); void *mine(void) { return test_suites; }'; } >"$work/cost.c"
grade "$work/cost.c"; [ $? = 1 ] && says 'test_suites, which belongs to the test runner'
report $? "what reaches for the runner is refused"
{ cat "$reference"; echo 'int strcmp(const char *a, const char *b); int strcmp(const char *a, const char *b) { return a != b; }'; } >"$work/cost.c"
grade "$work/cost.c"
report $? "a function of the C library's name is the submission's own"

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
grade --exercise cost "$work/mine"; [ $? = 1 ] && says 'there is cost (1).c and cost (2).c instead of cost.c: keep one, under that name' && says missing
report $? "two of them are not chosen from, and the remedy is said"
echo 'int x = y;' >"$work/mine/cost.c"
grade --exercise cost "$work/mine"; [ $? = 1 ] && says 'there is cost.c and cost (1).c and cost (2).c: cost.c is graded' && says 'does not compile'
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
    [ $? = 1 ] && says 'score 85 of 100' && python3 tests/data/grade/formats.py $format "$work/said.$format" >>"$work/said" 2>&1
    report $? "$format has the claims of the report, and the one that fails"
done
printf 'int x = "\033[1m\377<&>" + ;\n' >"$work/mine/02/cost.c"
grade --exercise cost --format junit --out "$work/said.junit" "$work/mine"
python3 -c "import sys, xml.etree.ElementTree as x; sys.exit(len(x.parse(sys.argv[1]).findall('.//failure')) < 7)" "$work/said.junit" >>"$work/said" 2>&1
report $? "what does not compile is XML all the same, and every claim fails"
grade --format jnit "$work/mine"; [ $? = 2 ] && says 'FORMAT=jnit is not known; the formats are text, json'
report $? "an unknown format: the list"
export GRADE_USER=$((60000 + $$ % 4000))                       # what runs as this user is ended: nobody else's may
if [ "$(id -u)" = 0 ]; then
    cp "$reference" "$work/mine/02/cost.c"
    sed -i "/^enum status.* {\$/s//&\n    if (can_do_harm()) return FAIL(E_INTERNAL, \"harm\");/" "$work/mine/02/cost.c"
    sed -i '1r tests/data/grade/other_user.c' "$work/mine/02/cost.c"
    grade --exercise cost --user "$GRADE_USER" "$work/mine"
    report $? "as another user, who can neither read a secret nor replace the program"
    grade --exercise cost "$work/mine"; [ $? = 1 ] && says harm
    report $? "which as root it could"
fi

# ---- hidden tests ----
patch -s -o "$work/cost.c" "$reference" lessons/02-*/mutants/cost-link-by-heart.patch
grade "$work/cost.c" && says 'score 100 of 100' && ! says hidden
report $? "a learner's grading has no hidden test"
grade --staff "$work/cost.c"; [ $? = 1 ] && says 'score 88 of 100' && grep -A 1 '^  FAILS' "$work/said" | grep -v 'FAILS' >"$work/below"
says 'FAILS  hidden: test_crossover_on_links_not_seen' && grep -q '^  holds\|^$' "$work/below" && ! says unseen.c && ! says alone:
report $? "of a hidden test that fails the name is said, and nothing else"
grade --staff --format junit "$work/cost.c"; [ $? = 1 ] && says 'failures="1"' && ! says unseen.c && ! says '<failure message="[^"]'
report $? "by other formats likewise"

# ---- what is linked ----
# An exercise's own test includes test_codec.h, and the exercise names the suite beside it, too.
mkdir "$work/own" && echo "own.o: lib/ops/test_codec.h" >"$work/own/test_own.c.d"
python3 - "$work/own" >"$work/said" 2>&1 <<'EOF'
import sys
from types import SimpleNamespace
sys.path.insert(0, "tools")
from grader import build
base = build.Base.__new__(build.Base)
base.folder, base.settings = sys.argv[1], SimpleNamespace(folder=build.build_folder())
base.exercise, base.bring = SimpleNamespace(own_tests=lambda: ["test_own.c"]), lambda objects: None
suite = base.object_of("lib/ops/test_codec.c")
linked = base.with_helpers([suite])
sys.exit(f"linked: {linked}" if linked.count(suite) != 1 else 0)
EOF
report $? "a suite is linked once, whoever asks for it"

# ---- the tree without the answers ----
tools/handout --out "$work/tree" all >"$work/said" 2>&1 && [ ! -e "$work/tree/$reference" ] && [ ! -e "$work/tree/.git" ] &&
    cmp -s "$work/tree/dp/dp_bucket.c" lessons/03-*/bucket/dp_bucket.c && ! ls "$work"/tree/lessons/0[23]-*/mutants >/dev/null 2>&1 &&
    ! grep -lE '^\+\+\+ b/dp/dp_bucket.c' "$work"/tree/tests/mutants/*
report $? "a handout has the starters, and neither references nor mistakes"
! ls "$work"/tree/lessons/*/*/test_*_unseen.c >/dev/null 2>&1 && ! grep -l '^hidden' "$work"/tree/lessons/*/*/exercise.ini &&
    [ "$(cat lessons/*/*/exercise.ini | grep -c '^hidden')" -ge 3 ]
report $? "no hidden test is in a handout, and nothing names one"
[ -f docs/answers.md ] && [ ! -e "$work/tree/docs/answers.md" ]
report $? "the answers for teachers are not in a handout"
hunt=$work/tree/lessons/17-debugging-a-run/hunt-dp
grep -q '^file ' "$hunt/exercise.ini" && ! grep -q 'starter_patch\|secret' "$hunt/exercise.ini" && cmp "$hunt/dp.c" "$work/tree/dp/dp.c" &&
    ! cmp -s dp/dp.c "$hunt/dp.c" && [ "$(wc -l <"$work/tree/docs/museum.md")" -lt 5 ] && ! grep -q '"name"' "$work/tree/docs/museum.json" &&
    ! grep -lE '^\+\+\+ b/(dp/dp|tp/tp|lib/program/exec|zero/zero_gather).c' "$work"/tree/tests/museum/*
report $? "a bug hunt begins with its bug, and nothing in a handout tells which"
(cd "$work/tree" && tools/check-lessons --anchors) >"$work/said" 2>&1
report $? "all anchors and links of a handout lead somewhere: to starters, and to secret pages"
tools/handout --out "$work/tree" 02 >"$work/said" 2>&1; [ $? = 2 ] && says 'not an empty folder'
report $? "a handout does not write over what is there"
mkdir -p "$work/tree/build" && cp -a "$BUILD"/{obj,flags,settings} "$work/tree/build"
touch "$work"/tree/{dp/dp_bucket,lib/ops/gelu_cpu}.c                 # else the objects are those that were brought along
# shellcheck disable=SC2086 # several words
(cd "$work/tree" && make BUILD_NAME=build $settings build && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    build/trivium launch -n 2 train --dp 2 --steps 1) >"$work/said" 2>&1
report $? "a handout of all lessons trains, by the references"
(cd "$work/tree" && BUILD=build tools/grade --built --lesson 03 dp/dp_bucket.c) >"$work/said" 2>&1
says 'dp/dp_bucket.c: ' && says 'is still to be written' && says 'score 0 of 100'
report $? "and grades the starter as what it is"
(cd "$work/tree" && BUILD=build tools/grade --built --lesson 03 "$OLDPWD/dp/dp_bucket.c") >"$work/said" 2>&1 && says 'score 100 of 100'
report $? "grading works in a handout"
rm -rf "$work/tree"
# One week's: what is later and what is over besides. Its program needs later lessons' files, too.
weekly() { (cd "$work/week" && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@") >"$work/said" 2>&1; }
tools/handout --over 02 --out "$work/week" 00 03 >"$work/said" 2>&1 && says 'for another week: 01 04' && says 'over, with their solutions: 02' &&
    python3 - "$work/week" >>"$work/said" 2>&1 <<'EOF'
import glob
import os
import sys
sys.path.insert(0, "tools")
from grader import exercise
def read(path):
    return open(path, "rb").read()
def those(pattern):
    return glob.glob(pattern, root_dir=week)
week, given, over = sys.argv[1], ("00", "03"), ("02",)
every = exercise.exercises()
later = [e for e in every if e.number not in (*given, *over)]
there = {read(os.path.join(folder, n)) for folder, _, names in os.walk(week) for n in names}
told = [e.label for e in every if e.number not in over and not e.starter_patch and read(e.reference) in there]
assert len(later) > 40 and not told, told
assert not those("lessons/*/mutants") and not those("lessons/*/*/*unseen*") and not those("docs/answers.md") and not those("tests/museum/28-*")
assert {p.split("/")[1][:2] for p in those("lessons/*/*/exercise.ini")} == {*given, *over}
assert all(read(os.path.join(week, e.replaces)) == read(e.starter) for e in later if e.replaces and not e.starter_patch)
assert all(read(os.path.join(week, e.reference)) == read(e.reference) for e in every if e.number in over or e.starter_patch)
EOF
report $? "one week's handout has no other week's answers; of what is over the solutions, and nothing of the staff's"
mkdir "$work/week/build" && cp -a "$BUILD"/{obj,flags,settings} "$work/week/build"
touch "$work"/week/{dp/dp_bucket,tp/tp_region}.c
# shellcheck disable=SC2086 # several words
weekly make BUILD_NAME=build $settings build && weekly build/trivium launch -n 4 train --dp 2 --tp 2 --steps 1
report $? "and trains in the ways of later weeks"
BUILD=build weekly tools/grade --built --lesson 03 "$scale/scale.c"; says 'scale_step is still to be written' && says 'score 0 of 100' &&
    { BUILD=build weekly tools/grade --built --lesson 05 tp/tp_region.c; [ $? = 2 ]; } && says 'no exercise that is graded here'
report $? "grades what is given out, and says of the others that they are not"
tools/handout --over 03 --out "$work/both" 03 >"$work/said" 2>&1; [ $? = 2 ] && says 'lesson 03 is in LESSON and in OVER' && [ ! -e "$work/both" ]
report $? "a lesson is given out or over, not both"
rm -rf "$work/week"

# ---- the zip for Gradescope, and the workflow for GitHub Classroom, with stand-ins for both ----
scope=$work/scope/source
tools/autograder --out "$work/autograder.zip" 02 03 >"$work/said" 2>&1 && mkdir -p "$scope" &&
    python3 - "$work/autograder.zip" "$scope" >>"$work/said" 2>&1 <<'EOF'
import os
import sys
import zipfile
with zipfile.ZipFile(sys.argv[1]) as z:                       # as unzip does, with modes
    for one in z.infolist():
        os.chmod(z.extract(one, sys.argv[2]), one.external_attr >> 16)
EOF
[ -x "$scope/run_autograder" ] && [ "$(cat "$scope/lessons")" = "02 03" ] && [ ! -e "$scope/trivium/$reference" ] &&
    [ ! -e "$scope/trivium/$scale/reference.c" ] && [ "$(wc -l <"$scope/hidden")" -ge 3 ] && (cd "$scope/trivium" && xargs cat <../hidden >/dev/null)
report $? "the zip has the tree without answers, the hidden tests, and what runs it"
if [ "$(id -u)" = 0 ]; then
    mkdir "$scope/trivium/build" "$work/scope/submission"
    cp -a "$BUILD"/{obj,flags,settings} "$scope/trivium/build"
    find "$scope/trivium/build" -name '*.[od]' -exec touch {} +      # the files of a zip are new
    echo 03 >"$scope/lessons"                                 # one lesson is enough to be built and run
    chmod 755 "$work"
    (BUILD=build SETTINGS="$settings" "$scope/setup.sh") >"$work/said" 2>&1
    report $? "setup.sh builds, and grades the starters"
    ! (cd "$scope/trivium" && xargs cat <../hidden) | grep -q '^static' && [ "$(find "$scope/trivium/references" -type f -perm /044 | wc -l)" = 0 ]
    report $? "what is hidden cannot be read by submissions"
    cp "$scale/reference.c" "$work/scope/submission/scale.c"
    (BUILD=build AUTOGRADER=$work/scope "$scope/run_autograder") >"$work/said" 2>&1 && cat "$work/scope/results/results.json" >>"$work/said" &&
        python3 - "$work/scope/results/results.json" >>"$work/said" 2>&1 <<'EOF'
import json
import sys
said = json.load(open(sys.argv[1]))
lost = {t["name"].split(":")[0] for t in said["tests"] if t["status"] != "passed"}
assert said["score"] == 100 and lost == {"03 bucket"} and sum("hidden: " in t["name"] for t in said["tests"]) == 2, said
EOF
    report $? "run_autograder: 100 points for what is right, 0 for what is missing"
    rm "$scope/trivium/build/settings"
    (BUILD=build AUTOGRADER=$work/scope "$scope/run_autograder") >"$work/said" 2>&1
    grep -q '"score": 0, "output": "The grader failed' "$work/scope/results/results.json" && says 'settings is not there'
    report $? "a grader that fails is said, and is no student's fault"
else
    echo "skip grade-autograder: only root can run submissions as another user"
fi
rm -rf "$work/scope"
if python3 -c 'import yaml' 2>/dev/null; then
    python3 - >"$work/step" 2>"$work/said" <<'EOF'
import yaml
job = yaml.safe_load(open("configs/classroom/github.yml"))["jobs"]["grade"]
step = {s.get("id", s.get("name")): s for s in job["steps"]}
assert step["Report"]["env"]["GRADE_RESULTS"] == "${{ steps.grade.outputs.result }}" and step["Report"]["with"]["runners"] == "grade"
assert step["Packages"]["run"] == "YES=1 tools/install-deps build"
print(f"LESSON={job['env']['LESSON']}\nexport LESSON\n{step['grade']['run']}")
EOF
    # as the step runs, but with this build, one exercise, and files in the scratch folder
    sed -i "s|make grade CUDA=0|make -s grade BUILD_NAME=$BUILD $settings EXERCISE=scale|; s|solutions|$work/solutions|g; s|result\.txt|$work/result.txt|g" "$work/step"
    mkdir "$work/solutions" && cp "$scale/reference.c" "$work/solutions/scale.c"
    (export GITHUB_OUTPUT=$work/output; bash -e "$work/step") >"$work/said" 2>&1 && says 'score 100 of 100' &&
        sed -n 's/^result=//p' "$work/output" | base64 -d | grep -q '"status": "pass", "max_score": 100'
    report $? "the workflow's step hands 100 of 100 points to the reporter"
else
    echo "skip grade-classroom: there is no python3-yaml"
fi

# ---- the container's files: no image is built here, but what they name is there ----
mkdir -p "$work/image/tools" && cp tools/install-deps "$work/image/tools"
python3 - "$work/image" "$BUILD" >"$work/said" 2>&1 <<'EOF'
import json
import os
import re
import subprocess
import sys

def lines_of(word):
    return re.findall(rf"^{word} (.*)", text, re.M)
text = open("Containerfile").read()
kit = json.load(open(".devcontainer/devcontainer.json"))
built = os.path.normpath(os.path.join(".devcontainer", kit["build"]["dockerfile"])), os.path.normpath(os.path.join(".devcontainer", kit["build"]["context"]))
assert built == ("Containerfile", "."), built
for copied in lines_of("COPY"):
    assert os.path.exists(copied.split()[0]), copied
made = re.findall(r"\bmake ([a-z][^\n]*)", text + kit["postCreateCommand"])
assert len(made) >= 4, made
for words in made:                                          # with this build's name, so that nothing is made
    subprocess.run(["make", "-n", "-s", *words.split()], check=True, stdout=subprocess.DEVNULL)
installer = re.search(r"tools/install-deps \w+", "".join(lines_of("RUN")))[0].split()
subprocess.run([installer[0], "--check", installer[1]], cwd=sys.argv[1], check=True)     # alone in its folder, as in the image
assert not [p for p in open(".dockerignore").read().split() if p in ("tools", "configs", "tests", "lessons")]
EOF
report $? "the container's files name what is there"

# ---- what an exercise begins with, and the program with a file in it ----
patch=$(sed -n 's/^starter_patch *= //p' lessons/17-*/hunt-dp/exercise.ini)
tools/mine --starter --lesson 17 --exercise hunt-dp "$work/my/dp.c" >"$work/said" 2>&1 && patch -s -R "$work/my/dp.c" "$patch" &&
    cmp "$work/my/dp.c" dp/dp.c >>"$work/said" 2>&1
report $? "a bug hunt's starter is the file with the patch"
tools/mine --starter --lesson 17 --exercise hunt-dp "$work/my/dp.c" >"$work/said" 2>&1; [ $? = 2 ] && says 'is there already'
report $? "a starter is not written over work"
# shellcheck disable=SC2086 # several words
make -s BUILD_NAME="$BUILD" $settings mine PATCH=tests/museum/12-sp-final-norm-partial.patch >"$work/said" 2>&1 &&
    ! "$BUILD/mine/trivium" nothing >>"$work/said" 2>&1 && says 'lib/run/combine.c as 12-'
report $? "a program is made with a published bug"
tools/mine --lesson 02 --exercise cost "$reference" >"$work/said" 2>&1; [ $? = 2 ] && says 'replaces no file of the program'
report $? "an exercise that replaces nothing makes no program"

# ---- many ----
submit() { # STUDENT [ATTACK]
    mkdir -p "$work/in/$1/02"
    { if [ -n "${2-}" ]; then echo "#define ATTACK_$2"; echo "#define PROOF \"$work/proof\""; cat tests/data/grade/attacks.c; fi
      sed "${2:+s/^[a-z].*) {\$/& if (attack()) return 0;/}" "$reference"; } >"$work/in/$1/02/cost.c"
}
row() { grep -qE "^$1,02,cost,$2" "$work/scores.csv"; } # STUDENT SCORE,...
submit ann
tools/grade-all --built --trusted --lessons 02 --exercise cost --out "$work/scores.csv" "$work/in" >"$work/said" 2>&1
row ann 100,9,9,graded,,
report $? "a table of scores, without a sandbox for those that are trusted"
mkdir -p "$work"/counts/{ann,bob,eve}/02                       # an exercise that has further tests
cp lib/comm/hops_levels.c "$work/counts/ann/02"
echo 'int x = y;' >"$work/counts/bob/02/hops_levels.c"
tools/grade-all --built --trusted --lessons 02 --exercise levels --out "$work/counts.csv" "$work/counts" >"$work/said" 2>&1
cut -d, -f 1,5,6 "$work/counts.csv" | tail -n +2 | tr -d '\r' >"$work/columns"
n=$(sed -n 's/^ann,\([0-9]*\),.*/\1/p' "$work/columns")
[ "$(cat "$work/columns")" = "$(printf '%s\n' "ann,$n,$n" "bob,0,$n" "eve,0,$n")" ] && [ "$n" -gt "$(sed -n '/claims/,$p' lessons/02-*/levels/exercise.ini | grep -c ^test)" ]
report $? "whether graded, broken or missing: there are as many claims"
mkdir -p "$work/after/ann/02"
sed '/^enum status.*{$/s//&\n    leave_later();/' "$reference" >"$work/after/ann/02/cost.c"
sed -i '1i #include <stdlib.h>\nstatic void leave(void) { abort(); }\nstatic void leave_later(void) { static int once; if (!once++) atexit(leave); }' "$work/after/ann/02/cost.c"
tools/grade-all --built --trusted --lessons 02 --exercise cost --out "$work/scores.csv" "$work/after" >"$work/said" 2>&1
grep -q '^ann,02,cost,[5-9][0-9],8,9,graded,' "$work/scores.csv"
report $? "what ends after its tests loses a claim, and there are no more for that"
mkdir -p "$work"/class/{ann,bob,tom} "$work/class/bob/00"
cp "$reference" "$work/class/ann"
mv "$work/class/ann/reference.c" "$work/class/ann/cost (1).c"
sed 's/2 \* (n - 1) \/ n;/(n - 1) \/ n;/' "$reference" >"$work/class/bob/cost.c"
class() { tools/grade-all --built --trusted --lessons 02 --exercise cost --deadline '2020-01-01' --out "$work/class.csv" "$@" "$work/class" >"$work/said" 2>&1; }
class --reports "$work/reports" && [ "$(ls "$work/reports")" = "$(printf '%s\n' ann.txt bob.txt tom.txt)" ] && cat "$work"/reports/* >>"$work/said" &&
    grep -q 'score 100 of 100' "$work/reports/ann.txt" && grep -q 'there is cost (1).c instead of cost.c; late: ' "$work/reports/ann.txt" &&
    grep -A 4 'FAILS  the bus bandwidth' "$work/reports/bob.txt" | grep -q 'test_cost.c:' && grep -q 'missing:' "$work/reports/tom.txt" &&
    ! grep -rqE 'alike|like (ann|bob)|unseen.c' "$work/reports" && grep -q 'like bob' "$work/class.csv"
report $? "a report for each student, with what fails and where to look, and nothing of another one"
class --reports "$work/junit" --format junit && python3 tests/data/grade/junit_class.py "$work/junit" "$work/class.csv" >>"$work/said" 2>&1
report $? "or in another format: the table's scores, the claims' weights"
class --reports "$work/class/out"; [ $? = 2 ] && says "where every folder is a student's" && [ ! -e "$work/class/out" ]
report $? "reports are not written among what was handed in"
class --format junit; [ $? = 2 ] && says 'REPORTS=folder'
report $? "a format of reports wants a folder"
mkdir -p "$work/letters/ann" && cp "$reference" "$work/letters/ann/COST.c"
tools/grade-all --built --trusted --lessons 02 --exercise cost --out "$work/scores.csv" "$work/letters" >"$work/said" 2>&1
row ann '100,.*,graded,there is COST.c instead of cost.c,'
report $? "a name in other letters is graded, with a remark"
mkdir -p "$work"/late/{ann,bob,eve,tom}
for student in ann bob eve; do cp "$reference" "$work/late/$student/cost.c"; done
touch -d '2026-12-01 18:00:00' "$work/late/ann/cost.c"
touch -d '2026-12-01 18:00:01' "$work/late/bob/cost.c"
touch -d '2026-12-02 18:00:01' "$work/late/eve/cost.c"
tools/grade-all --built --trusted --deadline '2026-12-01 18:00' --lessons 02 --exercise cost --out "$work/late.csv" "$work/late" >"$work/said" 2>&1
cut -d, -f 1,4,7,8 "$work/late.csv" | sed 's/; like .*//; s/,like .*/,/' >"$work/columns"
[ "$(tail -n +2 "$work/columns" | tr -d '\r')" = "$(printf '%s\n' ann,100,graded, 'bob,100,graded,late: 1 day' 'eve,100,graded,late: 2 days' 'tom,0,missing,there is no cost.c')" ]
report $? "a deadline: begun days, for who is late"
tools/grade-all --built --trusted --deadline tomorrow --lessons 02 --out "$work/late.csv" "$work/late" >"$work/said" 2>&1; [ $? = 2 ] && says 'DEADLINE=tomorrow is no date'
report $? "a deadline that is none"

# ---- from tables to marks ----
{ head -n 1 "$work/late.csv"; printf '%s\r\n' ann,03,scale,50,4,8,graded,,, bob,03,scale,70,6,8,graded,,,3 eve,03,bucket,100,8,8,graded,,,0; } >"$work/week.csv"
printf 'student,lesson,exercise,score,days late\nann,03,scale,60,0\n' >"$work/again.csv"
marks() { tools/marks --out "$work/marks.csv" "$@" >"$work/said" 2>&1; }
marks --required '02/cost 03/scale' "$work/late.csv" "$work/week.csv" "$work/again.csv" && tr -d '\r' <"$work/marks.csv" >"$work/columns"
[ "$(cat "$work/columns")" = "$(printf '%s\n' 'student,exercises,mean,bonus,left out,02/cost,03/bucket,03/scale' 'ann,100.0,100.0,0.00,03/scale,100,0,60' \
    'bob,90.0,90.0,0.00,03/scale,90,0,40' 'eve,81.0,80.0,1.00,03/scale,80,100,0' 'tom,0.0,0.0,0.00,02/cost,0,0,0')" ]
report $? "marks: late days off, the weakest left out, further ones a bonus, and the later table counts"
marks --drop 0 --per-day 0 --required '02/cost 03/scale' "$work/late.csv" "$work/week.csv" && grep -q '^bob,85.0,85.0,0.00,,100,0,70' "$work/marks.csv"
report $? "or by other rules"
marks --required '02/cost 04/states' "$work/late.csv"; [ $? = 2 ] && says 'no table has 04/states; they have 02/cost'
report $? "a week's table that was forgotten is said"
marks --required 02/cost "$work/late.csv"; [ $? = 2 ] && says 'at least one has to count'
report $? "nothing is left to count"
marks --required '02/cost 03/scale' Makefile; [ $? = 2 ] && says 'Makefile is no table of make grade-all'
report $? "what is no table"
REQUIRED='02/cost 03/scale' OUT=$work/made.csv make -s marks TABLES="$work/late.csv $work/week.csv" >"$work/said" 2>&1 && says 'made.csv: 4 students, 2 required exercises, 1 further ones'
report $? "make marks"


# ---- which claim fails? ----
asked() { tools/which --built --lesson 00 "$@" >"$work/said" 2>&1; }
mkdir -p "$work"/which/{ann,bob}/00 "$work/which/eve"
asked --name ann "$work/ann1" && asked --name ann "$work/ann2" && diff -r "$work/ann1" "$work/ann2" >>"$work/said" && asked --name bob "$work/bob" &&
    ! diff -r "$work/ann1" "$work/bob" >/dev/null && ! grep -lE '^# (what|claim|holds|says):' "$work"/ann1/*.patch &&
    [ "$(for p in "$work"/ann1/*.patch; do patch --dry-run -s -f -p1 <"$p" >>"$work/said" && echo applies; done | wc -l)" = 6 ]
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
    written = [claim.text, claim.text.upper() + ".", claim.text[:len(claim.text) // 2], f"{claim.test}: {claim.text}", claim.test[5:].replace("_", " "), claim.test + "  (int)"]
    print(f"{i}{'=:'[i % 2]} {written[i - 1]}")
EOF
asked --name ann --grade "$work/words.txt" && says "$n of $n"
report $? "a claim may be said in its words, or by a part of them that is its own"
printf '1 = the\n2 = -\n4 = replica\n' >"$work/words.txt"
asked --name ann --grade "$work/words.txt"; [ $? = 1 ] && says '1  not understood: "the" is no claim' && says '4  not understood' && ! says ' right'
report $? "what could be any claim is not understood"
sed '1s/=.*/= test_no_such/; 2d' "$work/which/ann/00/which.txt" >"$work/which/bob/00/which.txt"
asked --name ann --grade "$work/which/bob/00/which.txt"; [ $? = 1 ] && says '1  not understood: "test_no_such" is no claim' && says "2  nothing said" && says "$((n - 2)) of $n"
report $? "a wrong answer and none are said"
cp "$work/which/ann/00/which.txt" "$work/which/bob/00/which.txt"
tools/grade-all --built --trusted --lessons 00 --exercise which --out "$work/which.csv" "$work/which" >"$work/said" 2>&1
grep -q "^ann,00,which,100,$n,$n,graded,," "$work/which.csv" && grep -qE "^bob,00,which,[0-9]{1,2},[0-9]+,$n,graded,fails: patch [0-9]" "$work/which.csv"
report $? "grade-all grades the sheets; what is right for one is not for another"
grep -q "^eve,00,which,0,0,$n,missing,there is no 00/which.txt," "$work/which.csv"
report $? "a sheet that was not handed in is missing"

# ---- who is like whom ----
mkdir -p "$work"/alike/{ann,bob,eve,tom,zoe}/04
states=lessons/04-zero/states
cp $states/reference.c "$work/alike/ann/04/states.c"
sed -E 's/\b(kept_whole|shared|divided|left|shard)\b/my_\1/g; s|/\*.*||; s/^    / /; s/ = / =  /' $states/reference.c >"$work/alike/bob/04/states.c"
cp tests/data/grade/states_apart.c "$work/alike/eve/04/states.c"
cp $states/states.c "$work/alike/tom/04/states.c"
cp $states/states.c "$work/alike/zoe/04/states.c"
tools/similar --lessons 04 "$work/alike" >"$work/said" 2>&1 && says '04 states            100 %  ann  bob' && says '1 pair of 5 students'
report $? "other names, comments and spaces do not make it another file; one that was written apart and starters are not alike"
rm -r "$work"/alike/{tom,zoe}
tools/grade-all --built --trusted --lessons 04 --exercise states --out "$work/alike.csv" "$work/alike" >"$work/said" 2>&1
says 'alike: 04 states            100 %  ann  bob' && grep -q '^ann,04,states,100,9,9,graded,like bob: 100 %,' "$work/alike.csv" &&
    grep -q '^bob,.*like ann: 100 %' "$work/alike.csv" && grep -q '^eve,04,states,100,9,9,graded,,' "$work/alike.csv"
report $? "a table says who is like whom, and counts nothing off"

# ---- a leaderboard ----
mkdir -p "$work/par/ann" "$work/par/bob" "$work/par/eve" "$work/par/tom"
cp lessons/07-pipelines/par/reference.csv "$work/par/ann/par.csv"
cp lessons/07-pipelines/par/reference.csv "$work/par/tom/par.csv"
cp lessons/07-pipelines/par/par.csv "$work/par/eve/par.csv"
"$BUILD/trivium" schedule --schedule v-half --pp 4 --microbatches 8 --csv >"$work/par/bob/par.csv"
tools/grade-all --built --trusted --lessons 07 --exercise par --out "$work/par.csv" "$work/par" >"$work/said" 2>&1
[ "$(grep -A 9 '^leaderboard' "$work/said" | sed 's/ *$//')" = "$(printf 'leaderboard of 07 par: step\n   1  26.5     ann\n   1  26.5     tom\n   3  29.5     bob\n4 lines in %s' "$work/par.csv")" ] &&
    grep -q '^bob,07,par,50,3,6,graded,.*,29.5' "$work/par.csv"
report $? "a leaderboard of those who have a figure, the smallest first"

if ! command -v bwrap >/dev/null; then echo "skip grade-all: there is no bubblewrap"; exit; fi
for attack in loop forks exit flood memory kill write forge rewrite child steal network calls bomb; do
    submit "$attack" "$attack"
done
submit zoe
submit '=1+1' exit
submit $'caf\xe9'
mkdir -p "$work"/in/{link,pipe,dir/02/cost.c,none,far}
ln -s "$PWD/$reference" "$work/in/link/cost.c"
mkfifo "$work/in/pipe/cost.c"
ln -s "$work/in/ann/02" "$work/in/far/02"
mkdir -p "$work/in/peek/02" && echo '#include "lessons/02-collectives/cost/reference.c"' >"$work/in/peek/02/cost.c"
rm "$work/scores.csv"
tools/grade-all --built --jobs 2 --limit 4 --lessons 02 --exercise cost --out "$work/scores.csv" "$work/in" >"$work/said" 2>&1 &
until [ -f "$work/scores.csv" ] || ! kill -0 $!; do sleep 0.1; done 2>"$work/kill"
kill -0 $! 2>"$work/kill"
early=$?
wait $!
if grep -q 'bubblewrap does not work here' "$work/said"; then echo "skip grade-all: $(grep -m1 'bubblewrap' "$work/said")"; exit; fi
cat "$work/scores.csv" >>"$work/said"
report $early "a score is in the table while others are still graded"
for student in ann zoe 'caf\\udce9'; do row $student 100; report $? "$student, among all these, has full marks"; done
row loop 0,.*graded; report $? "an endless loop ends at its limit"
row forks 0,; report $? "a fork bomb is stopped"
row exit '0,.*no score'; report $? "exit(0) scores nothing"
row flood 0,; report $? "a flood of output is stopped"
row memory 0,; report $? "10 GiB are not given"
row kill 0,; report $? "who kills its parent kills itself"
row write 0, && [ ! -e "$work/proof" ]; report $? "no file is written outside"
for attack in forge rewrite steal; do
    row $attack '0,.*no score'
    report $? "a forged report counts nothing: $attack"
done
row child 0,; report $? "a forged report counts nothing, whoever is first"
row network 0,; report $? "no network"
row calls 0,; report $? "no keyring, no io_uring, no socket to the host of a virtual machine"
row bomb '0,.*refused.*8 MiB'; report $? "an object file with 60000 sections is refused"
row peek '0,.*does not compile'; report $? "the reference is not there to be included"
for student in link pipe dir far; do row $student 0,.*refused; report $? "refused: $student for a file"; done
row none 0,.*missing; report $? "nothing handed in is a line, too"
grep -q "^'=1+1,02,cost,0," "$work/scores.csv"; report $? "a student's name is no formula"
