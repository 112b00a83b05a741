#!/bin/bash
# make mine MY=my: all of a learner's files in one program, which trains with the project's losses; and what it says of
# a file that its claims refuse, or that is wrong at the sizes of a run only. Each file runs in the layout that its
# exercise.ini names (trains = ...): the starter does not train there.
# Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash
# shellcheck disable=SC2086 # several words
mine() { make -s BUILD_NAME="$BUILD" $settings mine STEPS=3 "$@" >"$work/said" 2>&1; }

# lesson exercise file replaces starter trains
python3 - >"$work/trained" <<'END'
import sys
sys.path.insert(0, "tools")
from grader import exercise
for e in exercise.exercises():
    if e.trains:
        print(e.number, e.name, e.file, e.replaces, "-" if e.starter_patch else e.starter, e.trains)
END
n=$(wc -l <"$work/trained")

# ---- all of them ----
while read -r lesson _ file replaces _; do
    mkdir -p "$work/my/$lesson"
    cp "$replaces" "$work/my/$lesson/$file"
done <"$work/trained"
mine MY="$work/my" && [ "$n" -gt 15 ] && says "$n of your files, the same losses." && ! says refused
report $? "all references, and the same losses"
early=$(echo tests/mutants/lessons/03-*/bucket-early-sum.patch)
patch -s "$work/my/03/dp_bucket.c" "$early"
touch "$work/my/predictions.txt" "$work/my/scael.c"
mine MY="$work/my" && says "refused: $(realpath --relative-to=. "$work/my")/03/dp_bucket.c, 03 bucket: " &&
    says "$((n - 1)) of your files, the same losses." && says 'predictions.txt is left out: lessons 15 17 18 have' &&
    says 'scael.c is left out: no exercise has a file of this name'
report $? "a file that fails a claim is refused by name, and the others train"

# ---- wrong, and no claim sees it: op_gelu's tests have 4001 elements at most, a run has 32768 ----
mkdir -p "$work/two"
cp "$work/my/01/layernorm_cpu.c" "$work/two"
sed 's/y\[i\] = store(/&(n > 10000 ? (real)0.999 : 1) * /' "$work/my/01/gelu_cpu.c" >"$work/two/gelu_cpu.c"
mine MY="$work/two" && ! says refused && ! says 'the same losses.' &&
    says "it is $(realpath --relative-to=. "$work/two")/gelu_cpu.c (01 gelu): alone"
report $? "a file that is wrong at the sizes of a run only is named"
mkdir "$work/none"
! mine MY="$work/none" && says 'there is no file of an exercise'
report $? "a folder without a file"

# ---- a layout runs its file: with the starter the run fails, or has other losses ----
losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1"; }
grep -v ' - --' "$work/trained" >"$work/starters"
while read -r lesson exercise _ _ starter trains <&3; do
    mine LESSON="$lesson" EXERCISE="$exercise" FILE="$starter" ||
        { report 1 "$lesson $exercise: its starter is in the program"; continue; }
    # shellcheck disable=SC2086 # several words
    run=(launch -n 8 train --config configs/demo.ini $trains --steps 3 --eval-every 0 --log quiet --comm-timeout 10)
    ! "$BUILD/mine/trivium" "${run[@]}" --metrics "$work/mine.jsonl" >"$work/said" 2>&1 ||
        { "$BUILD/trivium" "${run[@]}" --metrics "$work/right.jsonl" >>"$work/said" 2>&1 &&
            ! cmp -s <(losses "$work/mine.jsonl") <(losses "$work/right.jsonl"); }
    report $? "$lesson $exercise: $trains does not train with its starter"
done 3<"$work/starters"
