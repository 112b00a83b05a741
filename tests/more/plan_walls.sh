#!/bin/bash
# trivium budget --walls: which wall each of five models meets first, as JSON and as a page. Each is a search: 17 s of a
# core.
set -u -o pipefail
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; fi; }

"$B/trivium" budget --walls --scale 8:8 --json --out "$work/walls" >"$work/walls.json" 2>"$work/err" &&
    python3 - "$work" <<'P'
import json, sys
work = sys.argv[1]
walls = json.load(open(work + "/walls.json"))["walls"]
page = json.load(open(work + "/walls/walls.json"))
assert [w["model"] for w in walls] == ["1.3B", "13B", "175B", "310B",
                                       "1T"] and all(w["ranks"] == 8 for w in walls), walls
assert [w["wall"] for w in walls[2:]] == 3 * ["memory"] and all(w["fits"] for w in walls[:2]), walls
assert all(w["mfu_left"] < w["mfu"] < w["reach"] < 1 for w in walls[:2]), walls
assert page["kind"] == "walls" and page["walls"] == walls and 'id="data"' in open(work + "/walls/walls.html").read()
cells = [(c["row"], c["column"], c["first"].split(",")[0]) for c in page["cells"]]
assert cells == [(i, 0, w["wall"]) for i, w in enumerate(walls)]
P
report "budget_draws_four_walls" $?
