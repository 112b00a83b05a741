#!/bin/bash
# tools/handout, tools/autograder and configs/classroom: the tree without the answers, and what grades it elsewhere.
# Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash

# ---- the tree without the answers ----
tools/handout --out "$work/tree" all >"$work/said" 2>&1 && [ ! -e "$work/tree/$reference" ] &&
    [ ! -e "$work/tree/.git" ] &&
    cmp -s "$work/tree/dp/dp_bucket.c" lessons/03-*/bucket/dp_bucket.c && [ ! -e "$work/tree/tests/mutants/lessons" ] &&
    ! grep -rlE '^\+\+\+ b/dp/dp_bucket.c' "$work"/tree/tests/mutants
report $? "a handout has the starters, and neither references nor mistakes"
! ls "$work"/tree/lessons/*/*/test_*_unseen.* >/dev/null 2>&1 &&
    ! grep -l '^hidden' "$work"/tree/lessons/*/*/exercise.ini &&
    [ "$(cat lessons/*/*/exercise.ini | grep -c '^hidden')" -ge 3 ]
report $? "no hidden test is in a handout, and nothing names one"
[ -f docs/answers.md ] && [ ! -e "$work/tree/docs/answers.md" ] && [ -f tests/data/grade/states_apart.c ] &&
    [ ! -e "$work/tree/tests/data/grade" ]
report $? "the answers for teachers are not in a handout, and no solution of the tests"
hunt=$work/tree/lessons/17-debugging-a-run/hunt-dp
grep -q '^file ' "$hunt/exercise.ini" && ! grep -q 'starter_patch\|secret' "$hunt/exercise.ini" &&
    cmp "$hunt/dp.c" "$work/tree/dp/dp.c" &&
    ! cmp -s dp/dp.c "$hunt/dp.c" && [ "$(wc -l <"$work/tree/docs/museum.md")" -lt 5 ] &&
    ! grep -q '"name"' "$work/tree/docs/museum.json" &&
    ! grep -lE '^\+\+\+ b/(dp/dp|tp/tp|lib/program/exec|zero/zero_gather).c' "$work"/tree/tests/museum/*
report $? "a bug hunt begins with its bug, and nothing in a handout tells which"
(cd "$work/tree" && tools/check-lessons --anchors) >"$work/said" 2>&1
report $? "all anchors and links of a handout lead somewhere: to starters, and to secret pages"
grep -q '^#error "compile with -DMY_UPDATE' "$work/tree/nano/train.c" && grep -q '^struct layer ' nano/nano.h &&
    ! grep -q 'dp_reduce_scatter(m->dw\|in_flight = warm' "$work/tree/nano/train.c" &&
    grep -q 'add_half' nano/model.c && ! grep -q 'add_half' "$work/tree/nano/model.c"
report $? "of a file whose part is asked for, a handout has the rest"
tools/handout --out "$work/tree" 02 >"$work/said" 2>&1; [ $? = 2 ] && says 'not an empty folder'
report $? "a handout does not write over what is there"
mkdir -p "$work/tree/build" && cp -a "$BUILD"/{obj,flags,settings} "$work/tree/build"
touch "$work"/tree/{dp/dp_bucket,lib/ops/gelu_cpu}.c # else the objects are those that were brought along
# shellcheck disable=SC2086 # several words
(cd "$work/tree" && make BUILD_NAME=build $settings build && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    build/trivium launch -n 2 train --dp 2 --steps 1) >"$work/said" 2>&1
report $? "a handout of all lessons trains, by the references"
(cd "$work/tree" && BUILD=build tools/grade --built --lesson 03 dp/dp_bucket.c) >"$work/said" 2>&1
says 'dp/dp_bucket.c: ' && says 'is still to be written' && says 'score 0 of 100'
report $? "and grades the starter as what it is"
(cd "$work/tree" && BUILD=build tools/grade --built --lesson 03 "$OLDPWD/dp/dp_bucket.c") >"$work/said" 2>&1 &&
    says 'score 100 of 100'
report $? "grading works in a handout"
rm -rf "$work/tree"
# One week's: what is later and what is over besides. Its program needs later lessons' files, too.
weekly() { (cd "$work/week" && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@") >"$work/said" 2>&1; }
tools/handout --over 01 --out "$work/week" 00 03 >"$work/said" 2>&1 && says 'for another week: 02 04' &&
    says 'over, with their solutions: 01' &&
    python3 - "$work/week" >>"$work/said" 2>&1 <<'EOF'
import glob
import os
import re
import sys
sys.path.insert(0, "tools")
from grader import exercise
def read(path):
    return open(path, "rb").read()
def those(pattern):
    return glob.glob(pattern, root_dir=week)
week, given, over = sys.argv[1], ("00", "03"), ("01",)
every = exercise.exercises()
later = [e for e in every if e.number not in (*given, *over)]
there = {read(os.path.join(folder, n)) for folder, _, names in os.walk(week) for n in names}
told = [d.reference for e in every for d in e.doors if e.number not in over and not e.starter_patch
        and read(d.reference) in there]
assert len(later) > 40 and not told, told
for hidden in ("tests/mutants/lessons*", "lessons/*/*/*unseen*", "docs/answers.md", "tests/museum/28-*"):
    assert not those(hidden), hidden
assert {p.split("/")[1][:2] for p in those("lessons/*/*/exercise.ini")} == {*given, *over}
assert sorted(those("lessons/*/*/later.ini")) == sorted(e.folder + "/later.ini" for e in later)
assert not [p for p in those("lessons/*/*/*.ini") if re.search(rb"^(hidden|starter_patch|secret)\b",
                                                               read(os.path.join(week, p)), re.M)]
assert all(read(os.path.join(week, e.replaces)) == read(e.starter) for e in later if e.replaces and not e.starter_patch)
assert all(read(os.path.join(week, e.reference)) == read(e.reference) for e in every
           if e.number in over or e.starter_patch)
EOF
report $? "one week's handout has no other week's answers; of what is over the solutions, and nothing of the staff's"
mkdir "$work/week/build" && cp -a "$BUILD"/{obj,flags,settings} "$work/week/build"
touch "$work"/week/{dp/dp_bucket,tp/tp_region}.c
# shellcheck disable=SC2086 # several words
weekly make BUILD_NAME=build $settings build build/example_all_reduce &&
    weekly build/trivium launch -n 4 train --dp 2 --tp 2 --steps 1
report $? "and trains in the ways of later weeks, whose examples are linked to starters"
BUILD=build weekly tools/grade --built --lesson 03 "$scale/scale.c"; says 'scale_step is still to be written' &&
    says 'score 0 of 100' &&
    { BUILD=build weekly tools/grade --built --lesson 05 tp/tp_region.c; [ $? = 2 ]; } &&
    says 'no exercise that is graded here'
report $? "grades what is given out, and says of the others that they are not"
tools/handout --over 03 --out "$work/both" 03 >"$work/said" 2>&1; [ $? = 2 ] &&
    says 'lesson 03 is in LESSON and in OVER' && [ ! -e "$work/both" ]
report $? "a lesson is given out or over, not both"
BUILD=build weekly bash tests/docs.sh; ! grep -q '^not ok' "$work/said" && says 'ok docs_planted_mistakes_apply'
report $? "the tests of the pages hold in a handout"
# The student's objects are younger than the teacher's mend of a file: as old as it was, make would skip it.
touch "$work/objects"
echo '/* as it was */' >>"$work/week/README.md"
tools/handout --over 01 --previous "$work/week" --out "$work/next" 00 03 >"$work/said" 2>&1 &&
    [ "$work/next/README.md" -nt "$work/objects" ] && [ "$work/next/Makefile" -ot "$work/objects" ]
report $? "what differs from the handout before is newer than what was built there, and nothing else is"
tools/handout --previous "$work" --out "$work/none" 00 >"$work/said" 2>&1; [ $? = 2 ] && says 'is no handout'
report $? "another folder is not taken for the handout before"
rm -rf "$work/week" "$work/next"
# A given exercise and a later one replace the same file: the given one's starter is in the tree.
python3 - >"$work/said" 2>&1 <<'EOF'
import sys
sys.path.insert(0, "tools")
from grader import exercise, handout
later = next(e for e in exercise.exercises() if e.replaces and not e.starter_patch)
class Hunt:
    label, lesson, number, doors = "17/unseen-1", "17-debugging-a-run", "17", []
    replaces, starter, starter_patch, reference = later.replaces, "the bug", None, later.replaces
assert handout.Parts([Hunt]).replaced[later.replaces] == "the bug"
EOF
report $? "a file that is hunted in an examination has its bug, whatever a later exercise replaces"

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
    [ ! -e "$scope/trivium/$scale/reference.c" ] && [ "$(wc -l <"$scope/hidden")" -ge 3 ] &&
    (cd "$scope/trivium" && xargs cat <../hidden >/dev/null)
report $? "the zip has the tree without answers, the hidden tests, and what runs it"
if [ "$(id -u)" = 0 ]; then
    mkdir "$scope/trivium/build" "$work/scope/submission"
    cp -a "$BUILD"/{obj,flags,settings} "$scope/trivium/build"
    find "$scope/trivium/build" -name '*.[od]' -exec touch {} +      # the files of a zip are new
    echo 03 >"$scope/lessons"                                 # one lesson is enough to be built and run
    chmod 755 "$work"
    (BUILD=build SETTINGS="$settings" "$scope/setup.sh") >"$work/said" 2>&1
    report $? "setup.sh builds, and grades the starters"
    ! (cd "$scope/trivium" && xargs cat <../hidden) | grep -q '^static' &&
        [ "$(find "$scope/trivium/references" -type f -perm /044 | wc -l)" = 0 ]
    report $? "what is hidden cannot be read by submissions"
    cp "$scale/reference.c" "$work/scope/submission/scale.c"
    (BUILD=build AUTOGRADER=$work/scope "$scope/run_autograder") >"$work/said" 2>&1 &&
        cat "$work/scope/results/results.json" >>"$work/said" &&
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
    grep -q '"score": 0, "output": "The grader failed' "$work/scope/results/results.json" &&
        says 'settings is not there'
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
assert step["Report"]["env"]["GRADE_RESULTS"] == "${{ steps.grade.outputs.result }}" \
    and step["Report"]["with"]["runners"] == "grade"
assert step["Packages"]["run"] == "YES=1 tools/install-deps build"
print(f"LESSON={job['env']['LESSON']}\nexport LESSON\n{step['grade']['run']}")
EOF
    # as the step runs, but with this build, one exercise, and files in the scratch folder
    sed -i "s|make grade CUDA=0|make -s grade BUILD_NAME=$BUILD $settings EXERCISE=scale|
        s|solutions|$work/solutions|g; s|result\.txt|$work/result.txt|g" "$work/step"
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
built = os.path.normpath(os.path.join(".devcontainer",
                                      kit["build"]["dockerfile"])), os.path.normpath(
                                          os.path.join(".devcontainer", kit["build"]["context"]))
assert built == ("Containerfile", "."), built
for copied in lines_of("COPY"):
    assert os.path.exists(copied.split()[0]), copied
made = re.findall(r"\bmake ([a-z][^\n]*)", text + kit["postCreateCommand"])
assert len(made) >= 4, made
for words in made:                                          # with this build's name, so that nothing is made
    subprocess.run(["make", "-n", "-s", *words.split()], check=True, stdout=subprocess.DEVNULL)
installer = re.search(r"tools/install-deps \w+", "".join(lines_of("RUN")))[0].split()
# alone in its folder, as in the image
subprocess.run([installer[0], "--check", installer[1]], cwd=sys.argv[1], check=True)
assert not [p for p in open(".dockerignore").read().split() if p in ("tools", "configs", "tests", "lessons")]
EOF
report $? "the container's files name what is there"
