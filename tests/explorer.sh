#!/bin/bash
# What the explorer's page reads of the commands (planner/explorer/): show memory, plan and show options as JSON, and
# plan's picture. The page itself is looked at by tests/more/explorer.sh.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; fi; }
model=(--layers 8 --hidden 1024 --heads 8 --seq 1024 --vocab 8192 --global-batch 64)

# What a rank sends is what show mesh prints for the stage that sends most; a replay is a part of forward, done again.
"$B/trivium" show memory "${model[@]}" --dp 2 --tp 2 --pp 2 --micro-batch 4 --recompute full \
    --json >"$work/memory.json" 2>"$work/err" &&
    "$B/trivium" show mesh "${model[@]}" --dp 2 --tp 2 --pp 2 --micro-batch 4 --recompute full \
    --json >"$work/mesh.json" 2>"$work/err" && python3 - "$work" <<'P'
import json, sys
memory, mesh = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("memory", "mesh"))
assert memory["n_ranks"] == 8 and memory["microbatches"] == 8 and len(memory["ranks"]) == 8
wire = {a["axis"]: a["bytes"] for a in mesh if a["size"] > 1}
assert wire["tp"] > 0 and {a: max(r["wire_bytes"].get(a, 0) for r in memory["ranks"]) for a in wire} == wire, wire
for flops in (r["flops"] for r in memory["ranks"]):
    assert 0 < flops["replay"] < flops["forward"] and 1.5 * flops["forward"] < flops["backward_input"] \
        + flops["backward_weight"], flops
P
report "show_memory_has_wire_bytes_and_flops" $?

# The pipeline of a given layout is drawn: every stage, and F and B of each microbatch on it.
"$B/trivium" plan "${model[@]}" --dp 2 --tp 2 --pp 2 --micro-batch 4 --svg "$work/given.svg" >"$work/out" \
    2>"$work/err" && python3 - "$work/given.svg" <<'P'
import sys, xml.etree.ElementTree as xml
titles = [t.text for t in xml.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}title")]
assert sum(t.startswith("forward") for t in titles) == sum(t.startswith("backward") for t in titles) == 2 * 8, titles
P
report "plan_draws_the_pipeline_of_a_layout" $?
"$B/trivium" plan "${model[@]}" --dp 2 --svg "$work/none.svg" >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q '^E_CONFIG .*pp=1 has none; give --pp 2' "$work/err" && [ ! -e "$work/none.svg" ]
report "plan_draws_no_pipeline_of_one_stage" $?

# The words that an option takes, for the page's controls.
"$B/trivium" show options --json >"$work/options.json" 2>"$work/err" && python3 - "$work/options.json" <<'P'
import json, sys
choices = {o["name"]: o["choices"] for o in json.load(open(sys.argv[1]))}
assert choices["sp"] == "off|on" and choices["layers"] == "" \
    and choices["recompute"].split("|")[:3] == ["none", "selective", "full"], choices
P
report "show_options_has_choices" $?

# A layout that cannot be is refused before a program is built for it.
"$B/trivium" show memory --experts 4 --ep 2 >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q '^E_CONFIG .*ep=2 does not divide both experts=4 and dp x cp = 1' "$work/err"
report "show_memory_refuses_an_ep_without_replicas" $?
