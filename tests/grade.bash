# What the tests of the class kit share (tests/more/grade*.sh, class.sh, handout.sh): sourced, from the project's root, with BUILD (default: build)
# built. Lesson 02's exercise "cost" is graded most of the time: its $reference. What a command said is in $work/said. (tests/run runs *.sh.)
# shellcheck shell=bash disable=SC2034
export BUILD=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
reference=$(echo lessons/02-*/cost)/reference.c
scale=$(echo lessons/03-*/scale) # an exercise whose tests need several ranks
name=$(basename "$0" .sh)
if [ ! -f "$reference" ]; then echo "skip $name: no reference of lesson 02, cost (a handout)"; exit; fi
if grep -q fsanitize=address "$BUILD/settings"; then
    echo "skip $name: a sanitizer's build needs more addresses than a submission may have"
    exit
fi

# so that make finds all of it current
settings="CUDA=$(grep -c "^TEST_CFLAGS=.*TRIVIUM_CUDA" "$BUILD/settings") $(grep -q -- -Werror "$BUILD/flags" && echo WERROR=1)"

report() { if [ "$1" = 0 ]; then echo "ok $name: $2"; else echo "not ok $name: $2"; sed 's/^/    /' "$work/said"; fi; }
grade() { tools/grade --built --lesson 02 "$@" >"$work/said" 2>&1; }
says() { grep -qF -- "$1" "$work/said"; }
