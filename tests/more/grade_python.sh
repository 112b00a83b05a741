#!/bin/bash
# Exercises in Python (tools/grader/judge.py): the report of a wrong file, the choice of one of two doors, and the
# walls:
# a submission reaches neither its tests, nor another submission, nor the outside. tools/check-exercises has the
# planted mistakes.
# Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash
arithmetic=lessons/00-first-run/arithmetic

# ---- one submission ----
lesson00() { # SED: the reference with this edit, without a build
    sed "$1" $arithmetic/reference.py >"$work/arithmetic.py"
    BUILD=$work/no-build tools/grade --lesson 00 "$work/arithmetic.py" >"$work/said" 2>&1
}
lesson00 '' && says 'score 100 of 100   (5 of 5)' && [ ! -e "$work/no-build/obj" ]
report $? "full marks, and nothing is built"
lesson00 's,// b.dp,/ b.dp,'; [ $? = 1 ] &&
    says 'batch_share for global_batch=16, micro_batch=2, dp=2, seq=64: you say 8.0, which is a float' &&
    says 'test_arithmetic.py:'
report $? "a wrong value: the call, the value, and where the test is"
lesson00 's/share % b/shar % b/'; says "arithmetic.py:$(grep -n shar\ % "$work/arithmetic.py" |
    cut -d: -f1), in batch_microbatches: " && says "raises NameError: name 'shar' is not defined"
report $? "an error: the learner's line"
lesson00 's/^    return b.global_batch \* b.seq/    while True: pass/'
says "CPU time: arithmetic.py:$(grep -n while "$work/arithmetic.py" | cut -d: -f1), in batch_tokens" &&
    says 'a loop or a wait without an end (2 claims)'
report $? "a loop without an end: the learner's line, and the other tests go on"
lesson00 's/def batch_tokens(b):/def batch_tokens(b)/'; says 'does not load:' && says 'arithmetic.py:18: SyntaxError' &&
    says 'score 0 of 100'
report $? "what is no Python"
lesson00 '1i import torch'; says "No module named 'torch'" &&
    says "help: Python's standard library is all that there is"
report $? "no package is there"
lesson00 's/^    return b.global_batch \* b.seq/    print("seen", b.seq); return 7/'; says 'you say 7, right is 1024' &&
    says 'it printed: seen 64'
report $? "what a wrong function prints is shown"
lesson00 's/^    return b.global_batch \* b.seq/    import os; os._exit(0)/'
says 'the process ended in the middle of it (exit code 0)' && says 'score 60 of 100'
report $? "a function that ends the process loses its claims, and no others"

# ---- two doors ----
mkdir -p "$work/mine"
folder() { BUILD=$BUILD tools/grade --built --lesson 00 "$work/mine" >"$work/said" 2>&1; }
folder; says 'there is no arithmetic.c or arithmetic.py'
report $? "nothing handed in: both names are said"
cp $arithmetic/reference.py "$work/mine/Arithmetic (1).py"
folder && says 'there is Arithmetic (1).py instead of arithmetic.py' && says 'score 100 of 100'
report $? "a folder with a file in Python"
mv "$work/mine/Arithmetic (1).py" "$work/mine/arithmetic.py"
cp $arithmetic/arithmetic.c "$work/mine"
folder && says 'there is arithmetic.py and arithmetic.c: arithmetic.py is graded' && says 'score 100 of 100'
report $? "of two doors the one that is more than its starter is graded"
cp $arithmetic/reference.c "$work/mine/arithmetic.c"
echo x >>"$work/mine/arithmetic.py"
folder && says 'there is arithmetic.c and arithmetic.py: arithmetic.c is graded' && says 'score 100 of 100'
report $? "else the one in C"
python3 - "$work/tree" >"$work/said" 2>&1 <<'END'
import os, shutil, sys
sys.path.insert(0, "tools")
from grader import Trouble, exercise
lesson, folder = "00-first-run", "lessons/00-first-run/arithmetic"
def with_edit(path, old, new):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    shutil.copytree(folder, os.path.join(sys.argv[1], folder))
    with open(os.path.join(sys.argv[1], folder, path), "r+") as f:
        text = f.read()
        assert old in text
        f.seek(0), f.truncate(), f.write(text.replace(old, new))
    try:
        exercise.read(lesson, folder, sys.argv[1])
    except Trouble as trouble:
        return str(trouble)
assert "no test test_mfu_of_the_printed_step" in with_edit("test_arithmetic.py", "def test_mfu", "def mfu")
assert "both doors need further tests" in with_edit("test_arithmetic.py", "def gives",
                                                    "def test_more(yours): pass\ndef gives")
assert "ranks is no word of [python]" in with_edit("exercise.ini", "[python]", "[python]\nranks = 2")
END
report $? "two doors without the same claims are refused"

# ---- many ----
student() { # NAME STATEMENT: the reference of lesson 03, whose count_tokens begins with it
    mkdir -p "$work/in/$1"
    sed "s|^def count_tokens.*|&\n    $2|" "$scale/reference.py" >"$work/in/$1/scale.py"
}
all() { tools/grade-all --built --limit 6 --lessons 03 --exercise scale --reports "$work/reports" \
    --out "$work/scores.csv" "$@" "$work/in" >"$work/said" 2>&1; }
row() { grep -qE "^$1,03,scale,$2" "$work/scores.csv"; } # STUDENT SCORE,...
mkdir -p "$work"/in/{ann,bob,link,none}
sed 's/n_ranks \* own/own * n_ranks \/ 1 * own/' "$scale/reference.py" >"$work/in/ann/scale.py"
cp "$scale/reference.c" "$work/in/bob/scale.c"
ln -s "$PWD/$scale/reference.py" "$work/in/link/scale.py"
all --trusted
cat "$work/scores.csv" "$work/reports/ann.txt" >>"$work/said"
row ann 90,9,10,graded && row bob 100,10,10,graded && row none 0,0,10,missing && row link 0,0,10,refused &&
    ! says 'alike'
report $? "a table of both doors: as many claims, hidden ones too, and no C is compared with Python"
grep -q 'holds  hidden: test_scale_in_a_group_of_some_ranks' "$work/reports/ann.txt" &&
    ! grep -q unseen "$work/reports/ann.txt"
report $? "the report names a hidden test, and says nothing else of it"
if ! command -v bwrap >/dev/null; then echo "skip grade-all: there is no bubblewrap"; exit; fi
rm -r "$work"/in/{bob,link,none,ann}
student zoe ''
student amy 'pass'
student loop 'while True: pass'
student mute 'import os, time; os.closerange(1, 50); time.sleep(99)'
student read 'return open("/tree/lessons/03-data-parallelism/scale/test_scale_unseen.py").read()'
student kill 'import os; os.kill(-1, 9)'
student net 'import socket; socket.create_connection(("1.1.1.1", 80), 2)'
student flood 'while True: print("x" * 1000)'
mkdir -p "$work/in/forge"
printf '%s\n' 'import json, os' 'for fd in range(1, 9):' \
    '    try: os.write(fd, b"\0" + json.dumps({"loaded": 1}).encode() + b"\n\0" + b"[" * 99999 + b"\n")' \
    '    except OSError: pass' >"$work/in/forge/scale.py"
all --deadline 2020-01-01
if grep -q 'bubblewrap does not work here' "$work/said"; then
    echo "skip grade-all: $(grep -m1 'bubblewrap' "$work/said")"; exit
fi
cat "$work/scores.csv" "$work"/reports/{read,net}.txt >>"$work/said"
row zoe '100,10,10,graded,.*late: ' && row amy '100,.*like zoe: '
report $? "full marks in the sandbox, among all these; late, and alike"
for who in loop mute read kill net flood forge; do
    row $who '[01]?0,[01],10,graded'; report $? "$who reaches nothing"
done
says "No such file or directory: '/tree/lessons/03-data-parallelism/scale/test_scale_unseen.py'" &&
    says 'Network is unreachable'
report $? "neither hidden tests nor the network are there"
