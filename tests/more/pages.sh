#!/bin/bash
# The pages that commands write, in a headless Chromium: each picture has as many marks as its JSON says, light and
# dark, and the page has no complaint and asks for no other file (driver/report/check.py). And a page of a build without
# Vega: its tables, and what is missing.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
B=${BUILD:-build}
missing=$(tools/install-deps --check pictures browser) || { echo "skip pages ${missing#*: }"; exit 0; }
if ! grep -q 'data-vega="yes"' "$B/obj/report.html"; then
    echo "skip pages this build is without Vega: make build, now that it is installed"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

made() { # NAME COMMAND...
    local name=$1
    shift
    "$B/trivium" "$@" >"$work/out" 2>"$work/err" || [ -e "$work/$name.json" ] ||
        { echo "not ok pages_written: trivium $*"; sed 's/^/# /' "$work/err"; }
}
model=(--layers 4 --hidden 32 --heads 4 --seq 16 --global-batch 8 --micro-batch 2 --steps 3)
pipelines='pp=2 | pp=2 schedule=interleaved chunks=2 recompute=full'
made report launch -n 2 compare "${model[@]}" --out "$work" \
    --strategies "dp=2 | dp=2 zero=1 offload=optimizer | $pipelines | tp=3 | data=/no/<b>&amp;\""
searched=(--cluster dgx-a100 --device cuda --precision bf16 --layers 8 --hidden 512 --heads 8 --seq 512 --vocab 4096
    --global-batch 64)
made plan plan "${searched[@]}" --memory-limit 400 --gpus 8 --top 3 --pp 2 --out "$work"
made budget budget "${searched[@]}" --tokens 1e9 --scale 2:8 --out "$work"
made walls budget --walls --scale 8:8 --out "$work"
tiny=(--layers 2 --hidden 32 --heads 2 --seq 16 --global-batch 4 --steps 2)
"$B/trivium" oracle record --out "$work/one" "${tiny[@]}" >/dev/null 2>&1
"$B/trivium" launch -n 2 oracle record --out "$work/two" "${tiny[@]}" --dp 2 --lr 1e-2 --precision fp32 >/dev/null 2>&1
made check oracle check "$work/two" "$work/one" --out "$work"
made shown/memory show memory "${model[@]:0:12}" --pp 2 --rank 1 --out "$work/shown"
made states/memory show memory --params 7.5e9 --dp 64 --precision bf16 --out "$work/states"
made shown/comm show comm --mib 1 --ranks 8 --ranks-per-node 4 --comm-algorithm hierarchical --out "$work/shown"
driver/report/join "" >"$work/plain"
python3 driver/report/check.py "$work" || echo "not ok pages_check: it did not reach its end"
