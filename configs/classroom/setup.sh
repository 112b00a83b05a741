#!/bin/bash
# Gradescope: run once, as root, when the autograder's image is made. Installs what the build needs, builds, and grades
# the starters, so that everything which a submission is linked to is there. (make autograder packs this;
# docs/grading.md, "Gradescope")
#
# SETTINGS (environment): the build's settings, default CUDA=0
set -eu -o pipefail
source=$(cd "$(dirname "$0")" && pwd)
read -r lessons <"$source/lessons"
cd "$source/trivium"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MAKEFLAGS="-- ${SETTINGS-CUDA=0}"
YES=1 tools/install-deps build

starters=$(mktemp -d)
for number in $lessons; do
    for exercise in lessons/"$number"-*/*/exercise.ini; do
        mkdir -p "$starters/$number"
        cp "${exercise%/*}/$(sed -n '/^file *= */{s///p;q}' "$exercise")" "$starters/$number"
    done
done
# 1: less than full marks
tools/grade --staff --lesson "$lessons" --format json --out "$starters/grades" "$starters" || true
[ -s "$starters/grades" ]
rm -rf "$starters"

# Submissions run as another user. References cannot be read by it, and of hidden tests what the runner needs is left:
# the first line, and the names. Those in Python are read by the grader, which is root.
chmod -R go-rwx references
while read -r hidden; do
    case $hidden in *.py) chmod go-rwx "$hidden"; continue ;; esac
    sed -n '1p; /^TESTS(/,$p' "$hidden" >"$hidden.bare"
    touch -r "$hidden" "$hidden.bare"                          # the object that was made of it stays current
    mv "$hidden.bare" "$hidden"
done <"$source/hidden"
