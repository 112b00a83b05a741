#!/bin/bash
# trivium plan: a given layout and a search, as text and as JSON, and what it refuses, each in one line with a remedy.
set -u -o pipefail
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; fi; }
model=(--layers 8 --hidden 1024 --heads 8 --seq 1024 --vocab 8192 --global-batch 64)

"$B/trivium" plan "${model[@]}" --dp 2 --tp 2 --pp 2 --micro-batch 4 --json >"$work/plan.json" 2>"$work/err" &&
    python3 - "$work/plan.json" <<'P'
import json, sys
plan = json.load(open(sys.argv[1]))["plan"]
assert plan["ranks"] == 8 and plan["fits"] is True and plan["cluster"] == "dgx-a100", plan
assert abs(sum(plan["phases_s"].values()) - plan["step_s"]) < 1e-9 * plan["step_s"]
assert sum(plan["bytes"].values()) == plan["memory_bytes"]
assert plan["room_bytes"] == (79 - 5) * 2**30 and abs(plan["tokens_per_s"] * plan["step_s"] - 64 * 1024) < 1e-6
P
report "plan_of_a_layout_as_json" $?

# The bytes are those that show memory prints for the fullest rank.
bytes() { python3 -c 'import json, sys; print(max(r["total"] for r in json.load(sys.stdin)["ranks"]))'; }
shown=$("$B/trivium" show memory "${model[@]}" --dp 2 --tp 2 --pp 2 --micro-batch 4 --device cuda --precision bf16 \
    --json | bytes)
grep -q "\"memory_bytes\": $shown," "$work/plan.json"
report "plan_has_the_bytes_of_show_memory" $?

"$B/trivium" plan "${model[@]}" --gpus 8 --top 3 >"$work/out" 2>&1
report "plan_searches" $?
[ "$(grep -c ' mfu ' "$work/out")" = 3 ] && grep -q "^why others lose" "$work/out" &&
    grep -Eq "^  tp +8 .* s.*\[dp1 tp8 pp1" "$work/out"
report "plan_says_why_others_lose" $?

grep -q "^the first of these" "$work/out" &&
    grep -Eq "^  mpirun -n 8 build/trivium train --layers 8 .* --dp [0-9]+ --tp " "$work/out" &&
    grep -q "bandwidth of the outermost level" "$work/out"
report "plan_says_what_to_type_and_what_it_rests_on" $?

"$B/trivium" plan "${model[@]}" --gpus 8 --top 3 --json >"$work/search.json" 2>"$work/err" &&
    python3 - "$work/search.json" <<'P'
import json, sys
search = json.load(open(sys.argv[1]))["search"]
best, stat = search["best"], search["stat"]
assert len(best) == 3 and all(b["fits"] for b in best) and best[0]["tied"], best
for b in best:
    assert abs(sum(b["phases_s"].values()) - b["step_s"]) < 1e-9 * b["step_s"] \
        and sum(b["bytes"].values()) == b["memory_bytes"]
assert stat["seen"] == stat["refused"] + stat["too_large"] + stat["bound"] + stat["priced"]
assert {f["decision"] for f in search["families"]} >= {"tp", "pp", "micro-batch", "zero", "recompute"}
assert set(search["tipping"]) == {"wire_bytes_per_s", "product_part", "reserve_bytes"}
P
report "plan_searches_as_json" $?

# Bytes of a printed layout are those of show memory, to the byte.
options=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["search"]["best"][0]["options"])' \
    "$work/search.json")
# shellcheck disable=SC2086
shown=$("$B/trivium" show memory "${model[@]}" --device cuda --precision bf16 $options --json | bytes)
grep -q "\"memory_bytes\": $shown," "$work/search.json"
report "a_found_layout_has_the_bytes_of_show_memory" $?

# The page has a dot for each layout that was priced, and the numbers of the JSON. What a browser draws of it:
# tests/more/pages.sh
"$B/trivium" plan "${model[@]}" --gpus 8 --top 5 --pp 2 --json --out "$work/pictures" >"$work/drawn.json" 2>"$work/err"
report "plan_draws_what_it_found" $?
python3 - "$work" <<'P'
import json, sys
work = sys.argv[1]
search = json.load(open(work + "/drawn.json"))["search"]
page = json.load(open(work + "/pictures/plan.json"))
stat, best = search["stat"], search["best"]
text = open(work + "/pictures/plan.html").read()
inside = json.JSONDecoder().raw_decode(text[text.index('id="data">') + 10:].lstrip())[0]
assert inside == page and page["kind"] == "plan" and page["search"] == search
fit, no_fit, refined = page["dots"]["fit"], page["dots"]["no_fit"], page["dots"]["refined"]
assert len(fit) - refined == stat["priced"] - stat["no_fit"], (len(fit), refined, stat)
assert 0 < len(no_fit) <= stat["no_fit"] or not stat["no_fit"], (len(no_fit), stat)
assert all(d["why"] == "does not fit" and d["memory_bytes"] > page["room_bytes"] for d in no_fit)
assert all(d["why"] in page["dots"]["whys"] and d["memory_bytes"] <= page["room_bytes"] for d in fit)
for b in best:
    same = [d for d in fit if d["layout"] == b["layout"]]
    assert [(d["step_s"], d["memory_bytes"]) for d in same] == [(b["step_s"], b["memory_bytes"])], b
    assert (same[0]["why"] == "tied with the fastest") == b["tied"], b
assert {b["tied"] for b in best} == {True, False}, "the list has both kinds"
assert page["fastest_step_s"] == min(b["step_s"] for b in best)
assert [p[page["parts"].index("products")] for p in page["parts_s"]] == [b["phases_s"]["products"] for b in best]
assert all(abs(sum(p) - b["step_s"]) < 1e-9 * b["step_s"] for p, b in zip(page["parts_s"], best))
assert page["pipeline"]["heading"].startswith(best[0]["layout"]) and len(page["pipeline"]["stages"]) == 2
families = search["families"]
several = [f for f in families if sum(g["decision"] == f["decision"] for g in families) > 1]
tipping = [search["tipping"][k]["layout"] for k in ("wire_bytes_per_s", "product_part", "reserve_bytes")]
assert [r[3] for r in page["tipping"]] == tipping
assert page["tipping"][0][1] == f'{search["tipping"]["wire_bytes_per_s"]["now"] / 1e9:.3g} GB/s', page["tipping"]
assert [r[0] for r in page["families"]] == [f["decision"] for f in several], page["families"]
steps = {(f["decision"], f["choice"]): f["best"] for f in several}
for cells in page["families"]:
    b = steps[cells[0], cells[1]]
    assert cells[-1] == b["layout"] and (not b["fits"] or float(cells[2]) == float(f'{b["step_s"]:.4g}')), cells
P
report "the_page_of_a_plan_says_what_the_json_says" $?
"$B/trivium" plan "${model[@]}" --gpus 8 --top 5 --pp 2 --json >"$work/plain.json" 2>"$work/err" &&
    cmp -s "$work/plain.json" "$work/drawn.json"
report "drawing_does_not_change_what_is_found" $?

# A plan for this machine, and its run.
here=(--cluster cpu-2core --gpus 2 --layers 4 --hidden 64 --heads 4 --seq 32 --global-batch 8 --steps 2 --metrics "")
(cd "$work" && "$OLDPWD/$B/trivium" plan "${here[@]}" --cluster "$OLDPWD/configs/clusters/cpu-2core.ini" --run) \
    >"$work/run" 2>"$work/err"
report "plan_runs_what_it_found" $?
grep -q "^step 2/2" "$work/run" && grep -q "^layout: 2 ranks" "$work/run" && grep -q "^micro-batch = " "$work/plan.ini"
report "plan_writes_what_it_runs" $?

# A profile has the planner's seconds next to the measured ones, where a cluster is named and not else.
profile=("$B/trivium" train --config configs/demo.ini --steps 2 --eval-batches 1 --metrics "" --profile)
"${profile[@]}" --cluster cpu-2core >"$work/out" 2>"$work/err" &&
    grep -Eq "^ms per step .* share +rate predicted$" "$work/out" &&
    grep -Eq "^ +h\*\.qkv +4( +[0-9.]+){4} +[0-9.]+% +[0-9.]+ Gflop/s +[1-9][0-9.]+$" "$work/out" &&
    grep -Eq "^optimizer +[0-9.]+ +[0-9.]+% +[0-9.]+$" "$work/out"
report "profile_has_what_was_predicted" $?
"${profile[@]}" >"$work/out" 2>"$work/err" && grep -Eq "^ms per step .* share +rate$" "$work/out" &&
    ! grep -q predicted "$work/out"
report "profile_of_no_cluster_predicts_nothing" $?

# Offload is priced and said; a cluster that does not know its host is refused (below).
"$B/trivium" plan "${model[@]}" --dp 8 --zero 1 --offload optimizer >"$work/out" 2>"$work/err" &&
    grep -Eq "^  of which .* offload [0-9.]+%" "$work/out" && grep -Eq "^  host +[0-9.]+ GiB of each rank's" "$work/out"
report "plan_prices_offload" $?
sed '/^host-memory-gbs/d' configs/clusters/dgx-a100.ini >"$work/hostless.ini"

# Where nothing fits there is no list, nor a legend of one.
"$B/trivium" plan --model llama2-70b --global-batch 16 --gpus 2 >"$work/out" 2>"$work/err"
[ $? = 2 ] && grep -q "^nothing fits; with each choice" "$work/out" && grep -q "does not fit" "$work/out" &&
    ! grep -Eq "seconds: products|why others lose| mfu " "$work/out"
report "a_search_that_finds_nothing_says_so" $?

# What says auto is chosen, and kept.
"$B/trivium" show options --layers 10 --hidden 64 --pp 2 --global-batch 16 --micro-batch auto --recompute auto \
    --pp-split auto --memory-limit 6 >"$work/auto" 2>"$work/err"
report "show_knows_auto" $?
grep -Eq "^micro-batch +[1-9]" "$work/auto" && grep -q "^auto: --micro-batch" "$work/err"
report "auto_is_chosen_and_said" $?
"$B/trivium" plan "${model[@]}" --gpus 8 --top 1 --micro-batch auto --recompute auto >"$work/auto" 2>"$work/err" &&
    grep -Eq "^  micro-batch 4 " "$work/auto" && grep -Eq "^  recompute   full " "$work/auto"
report "auto_in_a_search_is_searched" $?
"$B/trivium" train --steps 1 --metrics "" --memory-limit 1 >/dev/null 2>"$work/err"
[ $? != 0 ] && grep -q "memory-limit is 1 MiB; use more ranks" "$work/err"
report "a_run_beyond_its_memory_limit_is_refused" $?

"$B/trivium" budget --model gpt3-175b --gpus 1024 --global-batch 1536 --tokens 300e9 --mfu 0.3365 >"$work/budget" \
    2>"$work/err" &&
    grep -q "in all  *36.1 days" "$work/budget" && grep -q "failures  *one in 49.5 h" "$work/budget"
report "budget_of_a_known_run" $?
"$B/trivium" budget --model gpt3-175b --global-batch 1536 --mfu 0.4 --scale 1024:1024 2>"$work/err" |
    grep -Eq "^gpt3-175b, 1.746e\+11 parameters, 3.492e\+12 tokens, on dgx-a100$"
report "a_curve_says_what_is_trained" $?
"$B/trivium" budget "${model[@]}" --tokens 1e9 --scale 2:8 --weak --json >"$work/curve.json" 2>"$work/err" &&
    python3 - "$work/curve.json" <<'P'
import json, sys
lines = json.load(open(sys.argv[1]))["budget"]["lines"]
assert [(l["ranks"], l["global_batch"]) for l in lines] == [(2, 64), (4, 128), (8, 256)], lines
assert all(a["wall_s"] > b["wall_s"] and a["mtbf_s"] == 2 * b["mtbf_s"] for a, b in zip(lines, lines[1:])), lines
P
report "budget_as_a_curve" $?
"$B/trivium" budget "${model[@]}" --tokens 1e9 --scale 2:8 --json --out "$work/curve" >"$work/curve.json" \
    2>"$work/err" && python3 - "$work" <<'P'
import json, sys
work = sys.argv[1]
budget = json.load(open(work + "/curve.json"))["budget"]
page = json.load(open(work + "/curve/budget.json"))
lines = budget["lines"]
assert page["kind"] == "budget" and page["budget"] == budget and 'id="data"' in open(work + "/curve/budget.html").read()
assert [len(c) for c in page["curves"]] == 2 * [len(lines)]
assert [g["ranks"] for g in page["goodput"]] == [l["ranks"] for l in lines]
products = page["parts"].index("products")
for l, c, g in zip(lines, page["curves"][0], page["goodput"]):
    assert abs(sum(l["phases_s"].values()) - l["step_s"]) < 1e-9 * l["step_s"], l
    assert all(c[k] == l[k] for k in ("ranks", "global_batch", "mfu", "step_s")), c
    assert abs(c["mfu_left"] - l["mfu"] / l["slowest"] * l["goodput"]) < 1e-12
    assert c["parts_s"][products] == l["phases_s"]["products"]
    assert abs(sum(c["parts_s"]) - l["step_s"]) < 1e-9 * l["step_s"]
    assert g["daly"][0] == l["daly_s"] and abs(1 - g["daly"][1] - l["goodput"]) < 1e-9, (g["daly"], l)
    assert g["young"][0] == l["young_s"], l
    assert min(lost for _, lost in g["line"]) >= 0.999 * g["daly"][1], g
batches = [l["global_batch"] * l["ranks"] // lines[0]["ranks"] for l in lines]
assert [c["global_batch"] for c in page["curves"][1]] == batches
P
report "budget_draws_its_curves" $?

given=(budget --model gpt3-6.7b --global-batch 64 --gpus 16)
"$B/trivium" "${given[@]}" --tp 8 --zero 0 | grep -qE 'of the best layout, dp[0-9]+ tp8 pp[0-9]+ micro-batch [0-9]+$' &&
    ! "$B/trivium" "${given[@]}" | grep -q ' tp8 '
report "budget_is_of_the_layout_that_is_given" $?

# refuse NAME TEXT ARGUMENTS: fails with one line that has all of TEXT, split at |
refuse() {
    local name=$1 text=$2 part fine=0
    shift 2
    "$B/trivium" "${command:-plan}" "$@" >/dev/null 2>"$work/err" && fine=1
    [ "$(wc -l <"$work/err")" = 1 ] || fine=1
    while IFS= read -r -d '|' part; do grep -qF -- "$part" "$work/err" || fine=1; done <<<"$text|"
    report "plan_refuses_$name" $fine
    [ $fine = 0 ] || cat "$work/err"
}
refuse what_fits_nowhere "no layout of gpus=2 fits|GiB of 74|use more gpus" --model llama2-70b \
    --global-batch 16 --gpus 2
refuse what_a_search_decides "--dp cannot be given|leave it out" "${model[@]}" --gpus 8 --dp 2
refuse a_search_over_replicas_that_train_apart "local-steps=50|train alike|without --gpus" "${model[@]}" --gpus 8 \
    --local-steps 50
refuse pictures_of_one_layout "--out is of a search|give --gpus" "${model[@]}" --out "$work/none"
command=budget refuse budget_of_an_mfu_and_a_layout "--mfu is of a layout|--tp is for a search" --model gpt3-6.7b \
    --global-batch 1024 --gpus 64 --mfu 0.4 --tp 8
for option in "--write plan.ini" --run "--top 3"; do
    # shellcheck disable=SC2086 # an option and its value
    refuse "of_one_layout_${option%% *}" "${option%% *} is of a search|give --gpus" "${model[@]}" $option
done
refuse a_directory_that_cannot_be "/dev/null/none" "${model[@]}" --gpus 8 --out /dev/null/none
refuse autos_that_do_not_fit "nothing that auto may choose fits|memory-limit" "${model[@]}" --micro-batch auto \
    --recompute auto --memory-limit 20
refuse codecs_on_gpus "grad-codec=int8 has no kernels for device=cuda|use device cpu" "${model[@]}" --gpus 8 \
    --grad-codec int8
refuse codecs_on_gpus_of_one_layout "grad-codec=int8 has no kernels for device=cuda|use device cpu" \
    "${model[@]}" --dp 2 --grad-codec int8
refuse weight_codecs_on_gpus "weight-codec=int8 has no kernels for device=cuda|use device cpu" "${model[@]}" --gpus 8 \
    --weight-codec int8
refuse weight_codecs_of_whole_weights "weight-codec=int8|zero=1|use zero 3" "${model[@]}" --gpus 8 --zero 1 \
    --weight-codec int8
refuse a_recomputation_that_is_not_searched "none, selective and full" "${model[@]}" --gpus 8 --recompute block:2
refuse an_unknown_cluster "no cluster is called nope|use one of a100-pcie, cpu-2core,|./nope.ini" --cluster nope
(cd "$work" && "$OLDPWD/$B/trivium" plan --cluster dgx-h100 --model gpt2-124m) >"$work/out" 2>"$work/err"
[ $? = 0 ] && grep -q "on 1 x dgx-h100" "$work/out"
report "plan_works_from_any_folder" $?
cp "$B/trivium" "$work/alone"
(cd "$work" && ./alone plan --cluster nope) >"$work/out" 2>"$work/err"
[ $? = 2 ] &&
    grep -q "neither the project of this program nor the current directory has configs/clusters; "\
"give a path as in ./nope.ini" "$work/err"
report "a_name_of_a_cluster_elsewhere_is_refused" $?
refuse layouts_beyond_the_memory_limit "no layout of gpus=8 fits|of 0.00781|a larger memory-limit" --gpus 8 \
    --memory-limit 8 --global-batch 64 --model gpt2-124m
"$B/trivium" plan --gpus 2 --cluster cpu-2core --layers 2 --hidden 64 --heads 4 --global-batch 8 --memory-limit 3 \
    --write "$work/limited.ini" >"$work/out" 2>"$work/err" &&
    "$B/trivium" launch -n 2 train --config "$work/limited.ini" --threads 1 --steps 1 --metrics "" \
    >"$work/out" 2>"$work/err"
report "train_takes_what_plan_writes_within_a_memory_limit" $?
refuse a_key_that_is_none "memory-gb|memory-gib" \
    --cluster <(sed 's/^memory-gib/memory-gb/' configs/clusters/dgx-a100.ini)
refuse offload_to_a_host_of_no_speed "host-memory-gbs=0|--offload none" "${model[@]}" --cluster "$work/hostless.ini" \
    --dp 8 --zero 1 --offload optimizer
refuse a_search_with_offload_to_a_host_of_no_speed "host-memory-gbs=0" "${model[@]}" --cluster "$work/hostless.ini" \
    --gpus 8 --offload optimizer
refuse an_asynchronous_schedule "use schedule 1f1b" "${model[@]}" --pp 2 --schedule pipedream --tie off
command=budget
refuse a_budget_for_nobody "give --gpus 1024" "${model[@]}"
refuse a_budget_of_replicas_that_train_apart "local-steps=50|train alike" "${model[@]}" --gpus 1024 --local-steps 50
refuse a_budget_of_no_batch "how many sequences|--global-batch 1536" --model gpt3-175b --gpus 1024
refuse a_scale_that_is_none "scale=8:2|use 64:16384" "${model[@]}" --scale 8:2
refuse a_budget_of_what_does_not_fit "no layout of gpus=2 fits|--mfu" --model llama2-70b --global-batch 16 --gpus 2
refuse walls_of_a_model "models, batches and numbers of ranks of its own|leave out --model" --walls --model gpt3-175b
refuse walls_of_no_size "9:63|512" --walls --scale 9:63

# ---- this machine as a cluster ----
"$B/trivium" launch -n 2 calibrate --widest 64 --out "$work/this.ini" >"$work/out" 2>"$work/err"
report "calibrate_measures_this_machine" $?
grep -q "^cores = 2$" "$work/this.ini" && grep -Eq "^op-gbs = .*gelu:[0-9.]+" "$work/this.ini" &&
    grep -q "^op-gbs = .*swiglu:" "$work/this.ini" && grep -Eq "^switch-us = " "$work/this.ini" &&
    [ "$(grep -c "^product-[mnk]0 = " "$work/this.ini")" = 3 ] && [ "$(grep -c "^# measured" "$work/this.ini")" -ge 7 ]
report "calibrate_writes_every_figure_with_its_source" $?

"$B/trivium" launch -n 2 compare --config configs/demo.ini --threads 1 --steps 3 --strategies "dp=2|pp=2|dp=2 tp=2" \
    --cluster "$work/this.ini" \
    --repeat 2 --out "$work/report" >"$work/out" 2>"$work/err" &&
    python3 - "$work/report/compare.json" "$work/out" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
rows, forecast = report["strategies"], report["forecast"]
assert [r["status"] for r in rows] == ["ran", "ran", "refused"], rows
assert all(r["spread"] >= 0 and r["predicted_step_ms"] > 0 and r["predicted_work_ms"] > 0
           and r["work_ms"] > 0 for r in rows[:2])
assert all(r["work_ms"] < 2 * 1.1 * r["step_ms"] for r in rows[:2]), rows     # of two cores
assert forecast["strategies"] == 2 and forecast["pairs"] <= 1, forecast
text = open(sys.argv[2]).read()
for words in ("Predicted on --cluster", "Predicted against measured, 2 strategies", "Noise, the median spread"):
    assert words in text, text
P
report "compare_predicts_what_it_measures" $?

# What planner/README.md says of published steps that nothing was fitted to.
BUILD=$B tools/plan-anchors --check >"$work/out" 2>"$work/err"
report "the_page_has_todays_errors_on_rows_that_nothing_was_fitted_to" $?

command=calibrate
refuse a_calibration_alone "2 ranks or more|1 ranks|launch -n"
refuse a_calibration_in_bf16 "use --precision fp32" --precision bf16
