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

# Another program than this one: its replay, its gradients unless they are given; trivium is what no stack says.
whole=("${model[@]}" --dp 4 --tp 2 --micro-batch 4 --recompute full)
stack() { "$B/trivium" plan "${whole[@]}" "$@" --json 2>"$work/err"; }
grads() { python3 -c 'import json, sys; print(json.load(sys.stdin)["plan"]["bytes"]["grad"])'; }
stack --stack trivium >"$work/ours.json" && stack | cmp -s - "$work/ours.json" &&
    stack --stack megatron-2021 >"$work/theirs.json" &&
    stack --stack megatron-2021 --grad-fp32 off >"$work/half.json" &&
    [ "$(grads <"$work/theirs.json")" = $((2 * $(grads <"$work/half.json"))) ] &&
    [ "$(grads <"$work/ours.json")" = "$(grads <"$work/half.json")" ] &&
    "$B/trivium" plan "${whole[@]}" --stack megatron-2021 2>"$work/err" | grep -q "8 x dgx-a100, megatron-2021: tp=2"
report "plan_for_a_stack" $?

# How its program is started with what a search found. tests/long/stacks.py asks that program's own parser.
start() { # STACK OPTIONS...: what stands under "the first of these"
    local stack=$1
    shift
    "$B/trivium" plan --model llama3-8b --cluster dgx-h100 --gpus 16 --tp 2 --pp 2 --micro-batch 1 --zero 1 \
        --recompute full --global-batch 64 --top 1 --stack "$stack" "$@" 2>"$work/err" |
        sed -n '/^the first of these:/,/^$/p' | sed '1d;$d'
}
start megatron-core --chunks 4 --clip 0.5 >"$work/out" && cat >"$work/should" <<'END' && cmp "$work/out" "$work/should"
  pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336 \
      --seq-length 8192 --max-position-embeddings 8192 --hidden-dropout 0 --attention-dropout 0 --micro-batch-size 1 \
      --global-batch-size 64 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --bf16 \
      --sequence-parallel --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
      --num-layers-per-virtual-pipeline-stage 4 --swiglu --disable-bias-linear \
      --untie-embeddings-and-output-weights --normalization RMSNorm --position-embedding-type rope \
      --rotary-base 500000 --group-query-attention --num-query-groups 8 --use-distributed-optimizer \
      --overlap-grad-reduce --overlap-param-gather --accumulate-allreduce-grads-in-fp32
  without a key there: --vocab 128256 --clip 0.5
END
report "a_stack_is_started_by_arguments" $?
start deepspeed >"$work/out" && grep -q '^  "gradient_accumulation_steps": 16,$' "$work/out" &&
    grep -q -- '--checkpoint-activations .*--zero-stage 1' <(tr -d '\\\n' <"$work/out") &&
    start torchtitan >"$work/out" && grep -qx 'data_parallel_shard_degree = 4' "$work/out" &&
    grep -qx 'flavor = "8B"' "$work/out" && ! grep -q 'without a key' "$work/out" &&
    start nanotron --recompute selective >"$work/out" && grep -qx '    num_key_value_heads: 8' "$work/out" &&
    grep -qx '  without a key there: --recompute selective' "$work/out"
report "a_stack_is_started_by_its_file" $?
given=(--model llama3-8b --cluster dgx-h100 --dp 4 --tp 2 --pp 2 --zero 1 --recompute block:3 --global-batch 64)
"$B/trivium" plan "${given[@]}" --pp-split 15,17 --stack megatron-core >"$work/out" 2>"$work/err" &&
    grep -q -- "--recompute-method block --recompute-num-layers 3 " "$work/out" &&
    grep -q -- "--pipeline-model-parallel-layout 'Et\*15|t\*17L'" "$work/out" &&
    grep -qx "  without a key there: --vocab 128256" "$work/out" && ! grep -q virtual "$work/out"
report "a_layout_of_a_stack_is_started_with_uneven_stages" $?
windows=(--window 4096 --window-layers sf)
"$B/trivium" plan "${given[@]}" "${windows[@]}" --stack megatron-core >"$work/out" 2>"$work/err" &&
    tr -d '\\\n' <"$work/out" | tr -s ' ' >"$work/line" &&
    grep -q -- "--window-size 4095,0 --window-attn-skip-freq '\[1,0,1,0,.*,0\]'" "$work/line" &&
    "$B/trivium" plan "${given[@]}" "${windows[@]}" --recompute none --stack nanotron >"$work/out" 2>"$work/err" &&
    grep -q "without a key there: .*--window 4096 --window-layers sf" "$work/out" &&
    "$B/trivium" plan "${given[@]}" "${windows[@]}" --layers 128 --stack megatron-core >"$work/out" 2>"$work/err" &&
    ! grep -q window-size "$work/out" && grep -q "without a key there: .*--window 4096 --window-layers sf" "$work/out"
report "a_stack_is_started_with_windows_or_has_no_key_for_them" $?

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
    grep -Eq "^  mpirun -n 8 [^ ]*trivium train --layers 8 .* --dp [0-9]+ --tp " "$work/out" &&
    grep -q "bandwidth of the outermost level" "$work/out"
report "plan_says_what_to_type_and_what_it_rests_on" $?

# The fastest of the ties is listed, also if others need less memory.
"$B/trivium" plan --model gpt2-1558m --cluster dgx-a100 --gpus 8 --global-batch 64 --top 2 >"$work/out" 2>&1
fastest=$(sed -n 's/^what the fastest, \(.*\), rests on.*/\1/p' "$work/out")
[ "$(grep -c ' mfu ' "$work/out")" = 2 ] && [ -n "$fastest" ] && grep ' mfu ' "$work/out" | grep -qF "$fastest"
report "plan_lists_the_fastest" $?
"$B/trivium" show memory "${model[@]}" --device cuda --precision bf16 --micro-batch 4 2>&1 |
    grep -q " parameters, precision bf16, micro-batch 4; "
report "show_memory_says_precision_and_micro_batch" $?

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
each = [l["global_batch"] / l["step_s"] / l["ranks"] for l in lines]   # speed per rank: T_n / n
assert all(abs(l["scale_factor"] - t / each[0]) < 1e-9 for l, t in zip(lines, each)) and each[2] != each[1], lines
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
# ---- --measured: files of measurements in place of the cluster file's figures ----
# What nccl-tests prints, of links of 243 GB/s and 2.1 us within hosts of 8, and of 33 GB/s a rank and 9 us between them
# (formulas of wire_time.h; a call is 10 us); products at 0.62 of 989.5 TFLOP/s; a trace of rows of known rates.
mkdir "$work/measured"
python3 - "$work/measured" <<'P'
import json, math, sys
work = sys.argv[1]
NODE, NODE_US, NET, NET_US, CALL = 243e3, 2.1, 33e3, 9.0, 10.0                   # bytes a microsecond
def us(test, size, inside, hosts):
    n = inside * hosts
    if test == "sendrecv": return CALL + size / (NODE if hosts == 1 else NET) + (NODE_US if hosts == 1 else NET_US)
    if hosts == 1: bw, alpha, share, members = NODE, NODE_US, size, inside
    else: bw, alpha, share, members = NET, NET_US, size / inside, hosts
    if test == "alltoall":
        return CALL + size * (n - (inside if hosts > 1 else 1)) / n / bw + (n - 1) * alpha
    if test != "all_reduce": return CALL + (n - 1) / n * share / bw + (n - 1) * alpha
    fixed = min(2 * (inside - 1), 4 * math.log2(inside)) * NODE_US if hosts > 1 else 0
    return CALL + fixed + min(2 * (n - 1) / n * share / bw + 2 * (members - 1) * alpha,
                              2 * share / 0.9 / bw + 4 * math.log2(members) * alpha)
def wide(x, width):
    return next((t for t in (f"{x:{width}.{d}f}" for d in (2, 1, 0)) if len(t) <= width), f"{x:{width}.1e}")
def output(name, test, inside=8, hosts=1, sizes=range(3, 31), head=True, wrong="0", groups=1, factor=None):
    n = inside * hosts // groups
    scale = {"all_reduce": 2 * (n - 1) / n, "sendrecv": 1}.get(test, (n - 1) / n) if factor is None else factor
    with open(f"{work}/{name}", "w") as f:
        if head:
            f.write("# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n"
                    f"# Collective test starting: ./build/{test}_perf\n")
        f.write("# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20 "
                "agg iters: 1 validation: 1 graph: 0 unalign: 0\n#\n# Using devices\n")
        for r in range(inside * hosts):
            f.write(f"#  Rank {r:2d} Group {r % groups:2d} Pid {4000 + r:6d} on {'node%02d' % (r // inside):>10s} "
                    f"device {r % inside:2d} [0000:1b:00] NVIDIA H100 80GB HBM3\n")
        f.write("node00:4000:4000 [0] NCCL INFO Bootstrap: Using eth0\n#\n"
                f"#{'':62s}out-of-place{'':23s}in-place{'':10s}\n"
                "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw  #wrong" + " \n"
                f"#        (B)    (elements){'':26s}" + 2 * "     (us)  (GB/s)  (GB/s)        " + " \n")
        for s in (1 << k for k in sizes):
            t = us(test, s, inside // groups, hosts)
            alg, redop = s / t / 1e3, "sum" if test in ("all_reduce", "reduce_scatter") else "none"
            timed = f"  {wide(t, 7)}  {wide(alg, 6)}  {wide(alg * scale, 6)}  {wrong:>6s}"
            f.write(f"{s:12d}  {s // 4:12d}  {'float':>8s}  {redop:>6s}  {-1:6d}{timed}{timed}\n")
        f.write("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 103.2 \n#\n")
output("node.txt", "all_reduce"), output("gather.txt", "all_gather"), output("old.txt", "reduce_scatter", head=False)
output("send.txt", "sendrecv", inside=2), output("all.txt", "alltoall")
output("net.txt", "all_reduce", hosts=4), output("net-gather.txt", "all_gather", hosts=2)
output("net-all.txt", "alltoall", hosts=2), output("rails.txt", "all_gather", hosts=4, groups=8)
output("wrong.txt", "all_reduce", wrong="3"), output("few.txt", "all_reduce", sizes=range(20, 23))
output("small.txt", "all_reduce", sizes=range(3, 9)), output("alone.txt", "all_reduce", inside=1, hosts=1)
output("factor.txt", "all_reduce", factor=1.5), output("pairs.txt", "sendrecv", hosts=2)
output("large.txt", "all_reduce", inside=16), output("which.txt", "all_gather", hosts=2, head=False)
output("broadcast.txt", "broadcast"), output("one.txt", "all_gather", inside=1, hosts=8)
lines = open(work + "/node.txt").readlines()
open(work + "/cut.txt", "w").writelines(lines[:-4] + [lines[-4][:60] + "\n"])
open(work + "/rankless.txt", "w").writelines(l for l in lines if "Rank" not in l)
open(work + "/columns.txt", "w").writelines(l.replace("busbw  #wrong", "busbw   error") for l in lines)
open(work + "/ms.txt", "w").writelines(l.replace("(us)", "(ms)") for l in lines)
open(work + "/algbw.txt", "w").writelines(lines[:-4] + [lines[-4].replace(lines[-4].split()[6], "999.99")])

def table(name, head, rows, line="{} {} {} {:.2f}"):
    open(f"{work}/{name}", "w").write(head + "\n" + "".join(line.format(*r) + "\n" for r in rows))
def rate(m, n, k, part=0.62, peak=989.5): return peak * part / (1 + 128 / k)
cubes = [(x, x, x, rate(x, x, x)) for x in (1024, 2048, 4096, 8192)]
table("products.txt", "# dtype bf16\n# m n k TFLOP/s", cubes)
table("products.csv", "m,n,k,TFLOP/s (bfloat16)", cubes, "{},{},{},{:.3f}")
sides = [(n, m, k) for m in (512, 4096) for n in (512, 4096) for k in (256, 512, 1024, 4096)]
table("shapes.csv", "n,m,k,tflops,dtype", [(n, m, k, 989.5 * 0.62 / (1 + 200 / k)) for n, m, k in sides],
      "{},{},{},{:.4f},bf16")
table("eighth.txt", "fp8: m n k TFLOP/s", [(x, x, x, rate(x, x, x, 0.5, 1979)) for x in (1024, 2048, 4096)])
table("nameless.txt", "m n k TFLOP/s", cubes), table("giga.txt", "# bf16 m n k GFLOP/s", cubes)
table("fast.txt", "# bf16", [(x, x, x, 1200) for x in (1024, 2048, 4096)])
table("holes.txt", "# bf16", cubes, "{} {} {}")

def row(name, seconds, **args):
    return {"ph": "X", "name": name, "pid": 0, "tid": 2, "cat": "row", "ts": 0, "dur": 1e6 * seconds + 4,
            "args": {"step": 3, **args}}
def worked(name, seconds, flops, bytes, **more):
    return row(name, seconds, dtype="bf16", flops=flops, bytes=bytes, **more)
PEAK, side = 989.5e12, 4096
rows = [worked("linear h0.qkv forward", 2 * side**3 * (1 + 128 / side) / (0.55 * PEAK), 2 * side**3, 6 * side**2,
               products=[[side, side, side, 1]]),
        worked("attention_blocked h0.attn forward", 1e12 / (0.4 * PEAK), 1e12, 1),
        worked("attention_blocked h0.attn backward_input", 1e12 / (0.3 * PEAK), 1e12, 1),
        worked("layernorm h0.ln1 forward", 1e9 / 2000e9, 0, 1e9), worked("cast_fp8 h0.x forward", 1e9 / 1500e9, 0, 1e9),
        row("linear h0.proj forward", 1)]
def trace(name, rows, program="trivium"):
    about = {"program": program, "ranks": [{"rank": 0}]}
    json.dump({"displayTimeUnit": "ms", "otherData": about, "traceEvents": rows}, open(f"{work}/{name}", "w"))
trace("trace.json", rows), trace("workless.json", [row("linear h0.qkv forward", 1)]), trace("other.json", rows, "torch")
P
sed '/^tile-units/d' configs/clusters/dgx-h100.ini >"$work/h100.ini"       # its speeds of products are a formula alone
# figures NAME FILES WORDS...: a plan with FILES says each of WORDS as a line
figures() {
    local name=$1 files=$2 words fine=0
    shift 2
    "$B/trivium" plan "${model[@]}" --dp 2 --tp 8 --cluster "$work/h100.ini" --measured "$files" >"$work/out" \
        2>"$work/err" || fine=1
    for words; do grep -Eq "^$words" "$work/out" || fine=1; done
    report "measured_$name" $fine
    [ $fine = 0 ] || { cat "$work/err"; grep measured "$work/out"; }
}
m=$work/measured
n243="node 24[23](\.[0-9])? GB/s, measured: $m/"
for one in node:all_reduce gather:all_gather old:an_older_reduce_scatter send:sendrecv all:alltoall; do
    figures "within_a_host_by_${one#*:}" "$m/${one%:*}.txt" "$n243${one%:*}.txt \(was 360, $work/h100.ini\)" \
        "node 2\.[01][0-9]* us, measured: $m/${one%:*}.txt \(was 3, "
done
for one in net-gather:all_gather net-all:alltoall rails:groups_of_one_rank_a_host; do
    figures "between_hosts_by_${one#*:}" "$m/${one%:*}.txt" \
        "net (33|32\.9|33\.0)[0-9]* GB/s, measured: $m/${one%:*}.txt \(was 40, " "net (9|8\.9|9\.0)[0-9]* us, "
done
figures between_hosts_after_within_them "$m/net.txt,$m/node.txt" "$n243" "net (33|32\.9|33\.0)[0-9]* GB/s" \
    "net (9|8\.9|9\.0)[0-9]* us"
figures by_several_files_of_a_level "$m/node.txt,$m/gather.txt" "${n243}node.txt, $m/gather.txt \(was 360"
figures products "$m/products.txt" "products in bf16 613.5 TFLOP/s, measured: $m/products.txt \(was 590\.[0-9], "
figures products_with_commas "$m/products.csv" "products in bf16 613.5 TFLOP/s"
figures products_and_their_shapes "$m/shapes.csv" "products in bf16 613.5 TFLOP/s" \
    "product-k0 200, " "product-m0 [0-9.e-]+, "
figures products_in_fp8 "$m/eighth.txt" "products in fp8 989.5 TFLOP/s, measured: $m/eighth.txt \(was 11"
figures rows_of_a_trace "$m/trace.json" "products in bf16 544.2 TFLOP/s" "attention forward 395.8 TFLOP/s" \
    "attention backward 296.9 TFLOP/s" "memory-bound rows 2000 GB/s" "cast_fp8 1500 GB/s"

# What was measured is what is priced: the same step as with a cluster file of those figures.
sed -e 's/^node-gbs.*/node-gbs = 243/' -e 's/^node-us.*/node-us = 2.1/' -e 's/^net-gbs.*/net-gbs = 33/' \
    -e 's/^net-us.*/net-us = 9/' -e 's/^product-part.*/product-part = 0.62/' "$work/h100.ini" >"$work/like.ini"
priced=(plan "${model[@]}" --dp 4 --tp 8 --json)
"$B/trivium" "${priced[@]}" --cluster "$work/h100.ini" >"$work/before.json" 2>"$work/err" &&
    "$B/trivium" "${priced[@]}" --cluster "$work/like.ini" >"$work/like.json" 2>"$work/err" &&
    "$B/trivium" "${priced[@]}" --cluster "$work/h100.ini" --measured "$m/node.txt" --measured "$m/net.txt" \
    --measured="$m/products.txt" >"$work/with.json" 2>"$work/err" && python3 - "$work" <<'P'
import json, sys
before, like, with_ = (json.load(open(f"{sys.argv[1]}/{n}.json"))["plan"] for n in ("before", "like", "with"))
assert before["measured"] == like["measured"] == []
off = [abs(p["step_s"] / like["step_s"] - 1) for p in (with_, before)]
assert off[0] < 0.005 < 0.02 < off[1], (off, before, like, with_)
figures = {(f["figure"], f["unit"]): f for f in with_["measured"]}
links = {(level, unit) for level in ("node", "net") for unit in ("GB/s", "us")}
assert set(figures) == links | {("products in bf16", "TFLOP/s")}, figures
assert all(f["file"].startswith(sys.argv[1]) and f["cluster"].endswith("h100.ini") for f in figures.values())
P
report "measured_figures_are_what_is_priced" $?
"$B/trivium" plan "${model[@]}" --gpus 8 --cluster dgx-h100 --measured "$m/node.txt" --json >"$work/out" \
    2>"$work/err" &&
    python3 -c 'import json, sys; assert json.load(sys.stdin)["search"]["measured"][0]["was"] == 360' <"$work/out" &&
    "$B/trivium" plan "${model[@]}" --gpus 8 --cluster dgx-h100 --measured "$m/node.txt" >"$work/out" 2>"$work/err" &&
    grep -Eq "^node 24[23].* \(was 360, configs/clusters/dgx-h100.ini\)$" "$work/out"
report "a_search_is_by_what_was_measured" $?

# A trace of this program, here.
"$B/trivium" train --config configs/demo.ini --steps 4 --val-fraction 0 --metrics "" --threads 1 \
    --trace "$work/own.json" >"$work/out" 2>"$work/err" &&
    "$B/trivium" plan "${model[@]}" --cluster cpu-2core --measured "$work/own.json" >"$work/out" 2>"$work/err" &&
    was="measured: $work/own.json \(was [0-9.]+, configs/clusters/cpu-2core.ini\)" &&
    grep -Eq "^products in fp32 [0-9.]+ TFLOP/s, $was$" "$work/out" &&
    grep -Eq "^memory-bound rows [0-9.]+ GB/s, $was$" "$work/out" &&
    grep -Eq "^attention forward [0-9.]+ TFLOP/s, $was$" "$work/out"
report "measured_by_a_trace_of_this_program" $?

not_measured() { refuse "measured_$1" "$2" "${model[@]}" --cluster "${3:-dgx-h100}" --measured "$m/$4"; }
not_measured wrong_results "wrong.txt:|#wrong is 3|mend the links" "" wrong.txt
not_measured few_sizes "3 sizes|at least 4|-b 8 -e 1G -f 2" "" few.txt
not_measured small_sizes "6 sizes|-b 8 -e 1G -f 2" "" small.txt
not_measured one_rank "a group of one rank|2 ranks or more" "" alone.txt
not_measured a_row_that_is_cut "columns, and the header has 13|whole" "" cut.txt
not_measured no_ranks "no lines # Rank|whole" "" rankless.txt
not_measured other_columns "size count type redop root|2.13 or newer" "" columns.txt
not_measured other_units "(us) and (GB/s)" "" ms.txt
not_measured another_algbw "and algbw is 999.99" "" algbw.txt
not_measured another_busbw "all_reduce of 8 ranks has 1.75 times" "" factor.txt
not_measured more_ranks_than_a_node "16 ranks on host node00|dgx-h100 has 8|--cluster" "" large.txt
not_measured a_name_that_is_not_said "all_gather or alltoall|2.16 or newer" "" which.txt
not_measured pairs_between_hosts "from one rank of 8|all_gather_perf" "" pairs.txt
not_measured a_broadcast "broadcast_perf is not a test that is read|all_reduce_perf" "" broadcast.txt
not_measured hosts_of_a_machine "4 hosts|no level beyond node" cpu-2core rails.txt
not_measured an_adapter_of_all "start all 8 ranks of each host" rtx-4090 one.txt
not_measured no_dtype "must name one dtype|names none" "" nameless.txt
not_measured another_unit "in GFLOP/s|m n k TFLOP/s" "" giga.txt
not_measured more_than_the_peak "1200 TFLOP/s in bf16 are more than the peak of dgx-h100, 989.5" "" fast.txt
not_measured three_columns "3 columns, and the header has 4" "" holes.txt
not_measured a_trace_of_others "not a trace of trivium train --trace" "" other.json
not_measured a_trace_without_work "no row has its flops and bytes" "" workless.json
not_measured nothing_known "neither what nccl-tests prints|docs/using.md" "" ../hostless.ini
not_measured no_file "none.txt: No such file" "" none.txt
not_measured products_twice "both measure products in bf16|leave one out" "" "products.txt,$m/products.csv"

# Heads of more than 128 channels, as MT-NLG's 160 and the 224 of BLOOM's sweep, are planned; those that no kernel has
# are refused by that name.
"$B/trivium" plan --model mt-nlg-530b --dp 8 --tp 8 --pp 35 --sp on --zero 1 --global-batch 1920 --micro-batch 1 \
    --recompute selective >"$work/out" 2>"$work/err" && grep -q "it fits" "$work/out" &&
    "$B/trivium" plan --layers 12 --hidden 14336 --heads 64 --seq 2048 --vocab 50304 --tp 8 --pp 4 --micro-batch 1 \
        --global-batch 64 >"$work/out" 2>"$work/err" && grep -Eq "^  step +[0-9.]+ s" "$work/out"
report "heads_of_160_and_224_channels_are_planned" $?
refuse heads_that_no_kernel_has "at most 256 channels|use more heads" --layers 2 --hidden 2560 --heads 8 --gpus 2 \
    --global-batch 8

# ---- --against: clusters side by side ----
# Each column is its cluster's figures, and the fastest layout that a search of it alone finds.
side=("${model[@]}" --gpus 8)
for cluster in a100-pcie rtx-4090; do
    "$B/trivium" plan "${side[@]}" --cluster "$cluster" --json >"$work/$cluster.json" 2>"$work/err"
done
"$B/trivium" plan "${side[@]}" --cluster a100-pcie --against rtx-4090 >"$work/out" 2>"$work/err" &&
    python3 - "$work" <<'P'
import json, re, sys
lines = open(sys.argv[1] + "/out").read().splitlines()
assert lines[0].split()[-2:] == ["a100-pcie", "rtx-4090"], lines[0]
table = {re.split(" {2,}", l)[0]: [float(x) for x in l.split()[-2:]] for l in lines[1:11]}
assert table["peak of products, TFLOP/s"] == [312, 165.2] and table["memory, GiB"] == [79, 23.5]
assert table["its bandwidth, GB/s"] == [1935, 1008] and table["innermost links, GB/s"] == [20, 12.5]
assert table["price per hour"] == [1.19, 0.34], table
for i, cluster in enumerate(("a100-pcie", "rtx-4090")):
    best = min(json.load(open(f"{sys.argv[1]}/{cluster}.json"))["search"]["best"], key=lambda b: b["step_s"])
    assert abs(table["step, s"][i] / best["step_s"] - 1) < 1e-3, (table, best)
    price = table["price per hour"][i] * 8 * best["step_s"] / 3600 / (64 * 1024) * 1e6
    assert abs(table["price of a million tokens"][i] / price - 1) < 1e-3, (table, price)
    peak = table["TFLOP/s by price"][i] * table["price per hour"][i]
    assert abs(peak / table["peak of products, TFLOP/s"][i] - 1) < 1e-3, table
assert lines[12].startswith("rtx-4090: dp"), lines[12]
P
report "clusters_side_by_side" $?
refuse clusters_of_two_kinds "cpu-2core has CPUs|clusters of a kind" "${side[@]}" --against cpu-2core
refuse a_table_as_json "leave --json" "${side[@]}" --against rtx-4090 --json
refuse a_table_of_one_layout "--against is of a search|give --gpus" "${model[@]}" --against rtx-4090

refuse a_stack_that_is_none "stacks.ini has no [megatron]|use one of megatron-2021, megatron-core" "${model[@]}" \
    --stack megatron
refuse a_stack_on_cores "share cores|--cluster dgx-a100" "${model[@]}" --stack deepspeed --cluster cpu-2core
refuse a_run_of_another_program "--stack deepspeed plans for another program|leave --run" "${model[@]}" --gpus 8 \
    --stack deepspeed --run
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

# What planner/README.md says of published steps.
BUILD=$B tools/plan-anchors --check >"$work/out" 2>"$work/err"
report "the_page_has_todays_errors_on_published_steps" $?

command=calibrate
refuse a_calibration_alone "2 ranks or more|1 ranks|launch -n"
refuse a_calibration_in_bf16 "use --precision fp32" --precision bf16
