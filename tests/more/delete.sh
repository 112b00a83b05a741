#!/bin/bash
# Each technique, variant of dp and model deleted in turn: its folder, and its lines of driver/recipe.c. The program is
# linked without it and trains a step. Only recipe.c is compiled: the build's dependencies (.d) show which other files
# include a header of the folder, and the linker which function is missing. Nothing is copied.
#
#   ONLY=zero tests/more/delete.sh      one of them
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
setting() { sed -n "s/^$1=//p" "$B/settings"; }
CC=$(setting CC) LIBS=$(setting LIBS) CFLAGS=$(setting TEST_CFLAGS)
objects() { tr ' ' '\n' | grep . | sed "s|^$B/[^/]*/|& |"; }         # "FOLDER FILE.o"
objects <<<"$(setting LIB_O) $B/obj/trivium.o" >"$work/program"
objects <<<"$(setting TEST_O)" >"$work/tests"
report() {
    if [ "$1" = 0 ]; then echo "ok delete: $2"; else
        echo "not ok delete: $2"
        sed 's/^/    /' "$work/said" | head -20
    fi
}

folders=$(ls -d dp tp pp cp ep emb muon zero mixed_precision recompute park elastic dp_variants/*/ models/*/ |
    sed 's|/$||')
# Files of the driver that go with it: a command, and what draws pipelines. recipe.c has their rows.
along() {
    case $1 in
    pp) printf '%s|' 'driver/chart/(pipeline_views|schedule_[a-z]*)' 'driver/show/schedule(_all)?'
        printf '%s|' driver/plan/plan_pipeline
        echo driver/compare/compare_pipeline ;;
    models/decode) echo 'driver/generate/generate(_text)?' ;;
    *) echo nothing ;;
    esac
}
# Tests outside the folder that include its headers, at most. They train layouts in which techniques meet, and set the
# options of each by its struct. The numbers may only fall; a new test sets such an option by name (plan_set_number).
declare -A together=(
    [cp]=9 [dp_variants/local]=2 [dp_variants/main_rank]=2 [dp_variants/server]=2 [emb]=1 [mixed_precision]=17
    [models/bert]=2 [models/decode]=2 [models/dlrm]=4 [models/gpt]=12 [models/llama]=4 [models/t5]=4 [park]=4
    [pp]=41 [recompute]=25 [tp]=19 [zero]=17
)

# Lines of recipe.c that name what the folder's headers declare, or include what is gone
recipe_without() { # FOLDER ALONG
    local names
    names=$(grep -hoE '^extern const struct (technique|model) [^;]*' "$1"/*.h |
        grep -oE '(technique|model)_[a-z0-9_]+' | paste -sd'|')
    grep -vE "\\b($names)\\b|\"($1/.*|$2)\.h\"" driver/recipe.c
}

including() { # FOLDER ALONG OBJECTS: other objects that include what is gone
    grep -vE " ($1/|($2)\.)" "$3" | grep -v ' driver/recipe.o' | sed 's/ //; s/\.o$/.d/' |
        xargs grep -lE "(^| )($1/[a-z0-9_/]+|$2)\.h" 2>/dev/null | sed "s|^$B/[^/]*/||; s|\.d$|.c|"
}

one() { # FOLDER
    local goes n
    goes=$(along "$1")
    including "$1" "$goes" "$work/program" >"$work/said"
    [ ! -s "$work/said" ]
    report $? "$1: no other file of the program includes its headers"
    recipe_without "$1" "$goes" >"$work/recipe.c"
    grep -vE " ($1/|($goes)\.)" "$work/program" | grep -v ' driver/recipe.o' | sed 's/ //' >"$work/link"
    $CC $CFLAGS -O0 -c -o "$work/recipe.o" "$work/recipe.c" >"$work/said" 2>&1 &&
        $CC -o "$work/trivium" "$work/recipe.o" @"$work/link" $LIBS >"$work/said" 2>&1 &&
        "$work/trivium" train --steps 1 --log warn --device cpu --precision fp32 --metrics "" >"$work/said" 2>&1
    report $? "$1: the program is linked without it, and trains"
    n=$(including "$1" "$goes" "$work/tests" | tee "$work/said" | wc -l)
    [ "$n" -le "${together[$1]:-0}" ]
    report $? "$1: tests outside its folder that name it: $n of at most ${together[$1]:-0}"
}
for folder in $folders; do
    [ -n "${ONLY:-}" ] && [ "$ONLY" != "$folder" ] || one "$folder"
done

# Options that the program asks a plan for by name: without such an option the answer is always no
"$B/trivium" train --help >"$work/help"
git grep -hoE 'plan_(number|set_number|has_word|set_word|option)\([^"()]*"[a-z-]+"' -- driver planner |
    grep -oE '"[a-z-]+"' | tr -d '"' | sort -u >"$work/asked"
while IFS= read -r name; do
    grep -qE "^ *--$name( |\$)" "$work/help" || echo "no option is called $name"
done <"$work/asked" >"$work/said"
[ -s "$work/asked" ] && [ ! -s "$work/said" ]
report $? "options that are asked for by name are there: $(wc -l <"$work/asked")"
