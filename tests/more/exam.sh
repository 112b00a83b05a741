#!/bin/bash
# An examination by a seed (tools/exam), the bank of its questions, and the notes of a hunt (tools/notes). Run from the
# project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash
exam() { tools/exam --built "$@" >"$work/said" 2>&1; }

exam --seed 2026 "$work/one" && exam --seed 2026 "$work/two" && diff -r "$work/one" "$work/two" >>"$work/said"
report $? "the same seed has the same bytes"
exam --seed 2027 "$work/other" && says '19 questions, 100 points' && ! diff -r "$work/one" "$work/other" >/dev/null
report $? "another seed has other questions"
cat "$work/one/paper.md" >"$work/said"
! grep -qE '^# (what|claim|says|cause|holds):|museum|<details>|The planner' "$work/one/paper.md" &&
    [ "$(grep -c '^\*\*[0-9]*\.\*\* ' "$work/one/paper.md")" = 19 ]
report $? "the paper has nothing of the key"
[ "$(grep -o '^\*\*[0-9]*' "$work/one/key.md")" = "$(grep -o '^\*\*[0-9]*' "$work/one/paper.md")" ] &&
    [ "$(grep -c 'Published as https' "$work/one/key.md")" = 2 ]
report $? "the key has an answer to each number"
python3 - "$work" >"$work/said" 2>&1 <<'EOF'
import os, re, sys
sys.path.insert(0, "tools")
from grader import exam, which
one = os.path.join(sys.argv[1], "one")
key = open(os.path.join(one, "key.md")).read()
planted = re.findall(r"\*\*\d+\.\*\* (.*) \(`(tests/mutants/lessons/(\S+?)/\S+)`\)", key)
assert len(planted) == 4, key
for said, path, lesson in planted:
    e = next(e for p, e in which.candidates(lesson) if os.path.relpath(p) == path)
    fails = which.broken(path, e, True)
    assert all(c.text in said for c in e.claims if c.test in fails), (path, fails)
seconds = float(re.search(r"planner's best: .*, ([\d.]+) s a step", key)[1])
text = open(os.path.join(one, "unseen/16/unseen/test_unseen_puzzle.c")).read()
model, batch, ranks = re.search(r'--model (\S+) --global-batch (\d+)", .*, (\d+)}', text).groups()
cluster = open(os.path.join(one, "unseen/16/unseen/cluster.ini")).read()
found = exam.planners({"cluster": cluster, "model": model, "batch": batch, "ranks": ranks}, sys.argv[1])
assert abs(seconds - min(b["step_s"] for b in found)) < 1e-3, (seconds, found[:3])
EOF
report $? "the key has all claims that fail, and the fastest of the planner's layouts"
grep -q -- '--depth ops' "$work/one/paper.md" &&
    [ "$(grep -c 'first alarm, with .--depth ops' "$work/one/key.md")" = 2 ]
report $? "paper and key of a hunt say how deep the record is"
exam --seed 2026 "$work/one"; [ $? = 2 ] && says 'is there already'
report $? "an examination is not written over"
mkdir "$work/broken" && printf '#!/bin/sh\necho broken >&2; exit 1\n' >"$work/broken/trivium"
chmod +x "$work/broken/trivium"
BUILD=$work/broken exam --seed 2026 --lessons '03 04' "$work/half"; [ $? = 2 ] && says broken &&
    [ -z "$(find "$work" -maxdepth 1 -name '*half*')" ]
report $? "an examination that fails leaves nothing"
exam --seed 2026 --lessons '03 04' "$work/short" && says '16 questions' &&
    ! grep -qE '^## (Hunts|A layout)' "$work/short/paper.md" &&
    [ "$(grep -oE 'lesson [0-9]+' "$work/short/key.md" | sort -u | tr '\n' ' ')" = 'lesson 03 lesson 04 ' ]
report $? "lessons that were not taught are not asked about"
exam; [ $? = 2 ] && says 'make exam SEED=2026'
report $? "a seed is asked for"
exam --bank "$work/bank.md" && n=$(grep -c '^\*Key\.\*' "$work/bank.md") && [ "$n" -ge 130 ] &&
    [ "$(grep -c '^| `' "$work/bank.md")" -ge 300 ]
report $? "the bank has 130 questions with their keys, and 300 planted mistakes with their claims"
grep -A 2 '^\*\*kept\.\*\* ' "$work/bank.md" | grep -qE '^\*Key\.\* [0-9 ]+ bytes: ' &&
    grep -qE '^\*\*[0-9]+\.\*\* [0-9 ]+ bytes, within ' "$work/short/key.md"
report $? "a number of a key has its unit"
[ "$(grep -c '^\*\*[0-9]*\.\*\* \*(With the lesson at hand' "$work/bank.md")" -ge 9 ] &&
    grep -q 'at hand.)\* How long does a rank wait in the worked problem' "$work/bank.md" &&
    ! cat "$work"/{one,other,short}/paper.md | tr '\n' ' ' | grep -qiE 'the worked problem|the opening|the same job'
report $? "a question that needs its lesson is marked in the bank, and in no paper"

# Hunts and layout as exercises, where they lie: what they begin with is wrong, and the reference right.
python3 - "$work" >"$work/said" 2>&1 <<'EOF'
import os, shutil, sys
sys.path.insert(0, "tools")
from grader import build, exam, exercise, grade, launch
work, wrong = sys.argv[1], 0
for lesson, name in ((exam.HUNTS, "17/unseen-1"), (exam.HUNTS, "17/unseen-2"), (exam.PUZZLES, "16/unseen")):
    folder = os.path.relpath(os.path.join(work, "one/unseen", name))
    for path in os.listdir(folder) if name.startswith("16") else ():       # the test names the folder where it will lie
        text = open(os.path.join(folder, path)).read()
        open(os.path.join(folder, path), "w").write(text.replace(f"lessons/{lesson}/unseen", folder))
    e = exercise.read(lesson, folder)
    base = build.Base(e, True)
    for begin, full in ((e.starter, False), (e.reference, True)):
        place = launch.Plain(os.path.join(work, "place", name, str(full)))
        os.makedirs(place.host_work)
        shutil.copyfile(begin, os.path.join(place.host_work, e.file))
        result = grade.grade(base, place, e.file, timeout=10)
        lost = [c.test for c, o in result.claims if not result.holds(o)]
        ok = result.full() if full else result.status == "graded" and len(lost) == len(e.claims) and not result.score()
        print(name, "reference" if full else "starter", result.status, result.message[:200], result.score(), lost,
              "" if ok else "WRONG")
        wrong += not ok
sys.exit(wrong > 0)
EOF
report $? "of hunts and layout no claim holds at the start, and all hold for the reference"

# ---- notes ----
notes() { tools/notes "$@" >"$work/said" 2>&1; }
notes --new "$work/notes.txt" && [ "$(grep -cE '^(tensor|place|ranks|cause) = $' "$work/notes.txt")" = 4 ]
report $? "notes have four lines"
notes "$work/notes.txt"; [ $? = 1 ] && [ "$(grep -c 'nothing said' "$work/said")" = 4 ]
report $? "lines that say nothing are named"
notes --new "$work/notes.txt"; [ $? = 2 ] && says 'is there already'
report $? "notes are not written over"
printf '%s\n' 'tensor = transformer.ln_f.weight.grad' 'place = step 1, backward' \
    'ranks = ranks 0 and 1 differ by 0.84' \
    'cause = combine_gradients does not sum over tp, and each rank has a part of the tokens' >"$work/notes.txt"
notes "$work/notes.txt" && says 'four lines, all of their form'
report $? "notes of that form are"
sed -i 's/^place.*/place = in the beginning/; s/^cause.*/cause = a bug/' "$work/notes.txt"
notes "$work/notes.txt"; [ $? = 1 ] && says 'place: "in the beginning" is not of the form' && says 'cause: "a bug"' &&
    [ "$(wc -l <"$work/said")" = 2 ]
report $? "a place without a step and a cause of two words are not"
