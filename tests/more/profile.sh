#!/bin/bash
# Lesson 22: what example_planted plants can be read in its traces. For two names, which together have all seven causes:
# what is counted in a trace is the number that the exercise takes. A slow rank sleeps between its steps, for longer
# than it works, and no other rank is there for as long. A slow stage is the one with the most layers.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/answers.c" <<'END'
#include "lessons/22-reading-a-profile/planted.h"
int main(int n, char **name) {
    for (int i = 1; n > 1 && i <= N_TRACES; i++) {
        struct planted p = planted_of(name[1], i);
        printf("%d %s %d %g\n", i, CAUSES[p.cause].name, p.rank, p.number);
    }
}
END
cc -I. -o "$work/answers" "$work/answers.c" || { echo "not ok profile_compiles"; exit 0; }
for name in reference ann; do
    mkdir "$work/$name"
    if ! "$B/example_planted" $name "$work/$name" "$B/trivium" >"$work/out" 2>&1; then
        echo "not ok profile_traces_of_$name"
        sed 's/^/# /' "$work/out"
        continue
    fi
    "$work/answers" $name | while read -r i cause rank number; do
        python3 lessons/22-reading-a-profile/lanes.py "$work/$name/trace-$i.json" >"$work/table"
        if python3 - "$work/table" "$work/$name/trace-$i.json" "$cause" "$rank" "$number" <<'END'
import json, re, sys
table, (cause, rank, number) = open(sys.argv[1]).read(), sys.argv[3:]
rows = [[float(x) for x in line.split()] for line in table.split("\n") if re.match(r" *\d+( +[-\d.]+){8}$", line)]
own, receive, between = ([row[k] for row in rows] for k in (2, 4, 8))
count = lambda pattern: int(re.search(pattern, table)[1])
events = json.load(open(sys.argv[2]))["traceEvents"]
layers = [len({e["name"].split()[1] for e in events
               if e["pid"] == r and re.match(r"attention\w* \S+ forward", e["name"])}) for r in range(len(rows))]
most = lambda column: column.count(max(column)) == 1 and str(column.index(max(column))) == rank
right = {"slow-rank": lambda: most(between) and between[int(rank)] > own[int(rank)],
         "bubble": lambda: count(r"(\d+) microbatches") == int(number) and min(receive) > 0,
         "small-messages": lambda: count(r"dp: (\d+) coll") == int(number),
         "one-bucket": lambda: count(r"dp: 1 collectives a step of (\d+)") == int(number),
         "tp-between-nodes": lambda: count(r"tp: (\d+) coll") == int(number),
         "recompute": lambda: count(r"replay: (\d+) rows") == int(number),
         "uneven-stages": lambda: most(layers) and max(layers) == int(number)}[cause]()
sys.exit(0 if right else 1)
END
        then echo "ok profile_${name}_$cause"; else echo "not ok profile_${name}_$cause: $rank $number"
        sed 's/^/# /' "$work/table"; fi
    done
done
