#!/bin/bash
# The oracle, end to end: a reference; layouts of ours that equal it in four precisions; spoiled recordings, and the
# oracle's report on each; recordings that it refuses. Adapters of other frameworks: tests/long/oracle.sh.
#
# Run from the project's root. BUILD: where the program is (default: build). ONLY=reports: those on spoiled recordings
# alone, of one layout and of the smallest that is wrong.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium root=$PWD || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1 ${3-}"; fi; }

model=(--layers 2 --hidden 32 --heads 4 --seq 16 --steps 2 --depth ops --log warn)
"$trivium" oracle record --out ref "${model[@]}" >out 2>&1
report a_reference_is_recorded $? "$(tail -1 out)"
# ---- spoiled recordings: "NAME WHAT FIRST SUSPECT" ----
cat >spoil.py <<'P'
import json, struct, sys
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), bytearray(data[8 + n:])
def write(path, header, body):
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + bytes(body))
def numbers(header, body, name):
    begin, end = header[name]["data_offsets"]
    return begin, end, list(struct.unpack(f"<{(end - begin) // 8}d", body[begin:end]))
path, what = "bad/step-1/rank-0.safetensors", sys.argv[1]
header, body = read(path)
def put(name, change):
    begin, end, x = numbers(header, body, name)
    body[begin:end] = struct.pack(f"<{len(x)}d", *change(x))
grad = "transformer.h.1.mlp.c_fc.weight.grad"
if what == "loss": put("loss", lambda x: [2 * x[0]])
if what == "half": put(grad, lambda x: [v / 2 for v in x])
if what == "thousandth": put(grad, lambda x: [v * 1.001 for v in x])
if what == "nan":
    put(next(n for n in header if n.split("#")[0] == "transformer.h.0.act"), lambda x: [-float("nan")] + x[1:])
if what == "piece": header.setdefault("__metadata__", {})[grad] = json.dumps({"first": [0, 0], "of": [32, 129]})
write(path, header, body)
P
spoil() { # NAME WHAT FIRST... : what must be said
    local name=$1 what=$2 text missing=0
    shift 2
    rm -rf bad
    cp -r ref bad
    python3 spoil.py "$what"
    "$trivium" oracle check bad ref >out 2>&1
    [ $? = 1 ] || missing=1
    for text in "$@"; do grep -qF -- "$text" out || missing=1; done
    report "$name" $missing "$(head -3 out | tr '\n' ' ')"
}
spoil a_halved_gradient_is_named half "first wrong: step 1, backward, layer 1: transformer.h.1.mlp.c_fc.weight.grad" \
    "suspect: ratio" "0.5 times" "  in eps of fp64: 2.25e+15; the limit is " \
    ", 8 times the most that moved roundings make in 8 runs" \
    "  run: trivium, fp64, 1 rank, 2 steps; reference: trivium; checked by $("$trivium" --version)"
python3 - <<'P'
import json, re, struct
def elements(folder):
    data = open(f"{folder}/step-1/rank-0.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + n])["transformer.h.1.mlp.c_fc.weight.grad"]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 8}d", data[8 + n + begin:8 + n + end])
row, column, run, reference = re.search(
    r"worst on rank 0: element \((\d+), (\d+)\) is (\S+), and should be (\S+)", open("out").read()).groups()
bad, ref, at = elements("bad"), elements("ref"), 128 * int(row) + int(column)
off = [abs(x - y) for x, y in zip(bad, ref)]
right = [run, reference] == [f"{x[at]:.9g}" for x in (bad, ref)] and off[at] == max(off) > 2 * off[0]
print("ok" if right else "not ok", "the_worst_element_is_where_it_says")
P
spoil a_thousandth_too_much_is_named thousandth "transformer.h.1.mlp.c_fc.weight.grad" "1.001 times"
spoil what_is_not_a_number_is_wrong nan "first wrong: step 1, forward, layer 0: transformer.h.0.act" \
    "  it has infinity or NaN where the reference has numbers" "element (0, 0, 0) is nan, and should be "
spoil another_shape_is_said piece "transformer.h.1.mlp.c_fc.weight.grad" \
    "  rank 0 gives it another shape than the reference: (32, 129), and not (32, 128)"
# two ranks: what each has of one activation. "FIRST SAMPLES OF VALUE, FIRST SAMPLES OF VALUE WANTED"
cat >two_ranks.py <<'P'
import json, os, struct, sys
os.makedirs("bad/step-1")
for rank, words in enumerate(sys.argv[1:]):
    first, n, of, value = words.split()
    values, name = [float(value)] * (int(n) * 16 * 32), "transformer.drop.act#0"
    where = json.dumps({"first": [int(first), 0, 0], "of": [int(of), 16, 32]})
    header = {name: {"dtype": "F64", "shape": [int(n), 16, 32], "data_offsets": [0, 8 * len(values)]},
              "__metadata__": {name: where}}
    text = json.dumps(header).encode()
    with open(f"bad/step-1/rank-{rank}.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + struct.pack(f"<{len(values)}d", *values))
with open("bad/recording.json", "w") as f:
    json.dump({"format": "trivium-recording", "version": 1, "by": "two ranks", "dtype": "fp32", "steps": 1}, f)
P
while IFS='|' read -r name zero one wanted; do
    rm -rf bad
    python3 two_ranks.py "$zero" "$one"
    "$trivium" oracle check bad ref >out 2>&1
    grep -qF -- "$wanted" out && ! grep -q -- '-nan' out
    report "two_ranks_$name" $? "$(grep -v '^progress' out | head -3 | tr '\n' ' ')"
done <<'ROWS'
with_the_same_samples|0 4 4 1|0 4 4 1|  ranks 0 and 1 hold the same 4 samples, and a step of the reference has 8: give
with_samples_that_are_said_to_differ|0 8 16 1|8 8 16 1|  ranks 0 and 1 hold the same samples, and say that these are
with_other_samples|0 6 12 1|6 6 12 2|  all ranks together have 12 samples in this step, and the reference has 8: train
with_another_shape|0 6 12 1|6 6 12 2| gives it another shape than the reference: (12, 16, 32), and not (8, 16, 32)
of_two_shapes|0 4 4 1|4 4 8 1|E_FORMAT kept.c
with_two_infinities|0 8 8 inf|0 8 8 -inf|  ranks 0 and 1 should have the same values, and one has infinity or NaN
with_the_same_nan|0 8 8 nan|0 8 8 -nan|  it has infinity or NaN where the reference has numbers
ROWS
"$trivium" oracle show bad 1 transformer.drop.act >out 2>&1
grep -q '^norm nan, ' out && grep -q '^nan nan ' out && ! grep -q -e -nan -e differ out
report a_nan_is_shown_without_a_sign $? "$(head -3 out | tr '\n' ' ')"
rm -rf bad && cp -r ref bad && cp bad/step-1/rank-0.safetensors bad/step-2/rank-0.safetensors
"$trivium" oracle check bad ref --out page >out 2>&1
grep -q "first wrong: step 2, forward" out && python3 -c '
import json
rows, page = json.load(open("page/check.json")), open("page/check.html").read()
inside = json.JSONDecoder().raw_decode(page[page.index("id=\"data\">") + 10:].lstrip())[0]
assert inside == rows and rows["kind"] == "check" and rows["suspects"] and rows["calls"]["ranks"] == 0
assert all(r["layer"] == (int(r["name"].split(".h.")[1].split(".")[0]) if ".h." in r["name"] else -1)
           for r in rows["rows"])
assert rows["rows"][rows["first"]]["verdict"] == "wrong" and rows["wrong"] > 10'
report a_page_and_numbers_are_written $? "$(head -1 out)"

# ---- the smallest layout that is wrong, and the hash of a reference ----
smallest=$root/tools/oracle/smallest.py
cat >tp_is_wrong <<S
$trivium launch -n "\$1" oracle record --out bad ${model[*]} --dp "\${2#dp=}" --tp "\$3" || exit
[ "\$3" = 1 ] || python3 spoil.py loss
S
rm -rf bad
export BUILD=${trivium%/*}
python3 "$smallest" smallest bad ref dp=2 tp=2 -- bash tp_is_wrong '{ranks}' 'dp={dp}' '{tp}' >out 2>&1
[ $? = 1 ] && [ "$(head -2 out)" = "dp=1 tp=1, 1 rank: right
dp=2 tp=1, 2 ranks: right" ] &&
    grep -q '^smallest layout that is wrong: dp=1 tp=2, 2 ranks; right are dp=1 tp=1; dp=2 tp=1$' out &&
    grep -q '^first wrong: step 1, loss: loss$' out && grep -q '^  run: trivium, fp64, 2 ranks, 2 steps; ' out
report the_smallest_wrong_layout_is_found $? "$(tail -4 out | tr '\n' ' ')"
python3 "$smallest" smallest bad ref dp=2 -- true >out 2>&1
[ $? = 1 ] && grep -q '^smallest: bad is there, .* remove it' out
report smallest_removes_nothing_of_others $? "$(head -1 out)"
python3 "$smallest" smallest none ref dp=2 -- false >out 2>&1
[ $? = 1 ] && grep -q '^smallest: the command failed in 2 layouts, and 0 are right' out
report a_layout_that_does_not_run_is_not_right $? "$(tail -1 out)"
python3 "$smallest" smallest none ref dp=2 -- mkdir none >out 2>&1
[ $? = 1 ] && grep -q '^smallest: .* is none a recording?' out && ! grep -q 'wrong' out
report smallest_says_what_check_refuses $? "$(tail -1 out)"
rm -rf none
sum=$(cd ref && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -d' ' -f1)
[ "$(python3 "$smallest" hash ref "$sum")" = "$sum" ] && cp -r ref odd && echo >>odd/tokens.json
python3 "$smallest" hash odd "$sum" >out 2>&1
[ $? = 1 ] && [ "$(wc -l <out)" = 1 ] && grep -q "^hash: odd has [0-9a-f]*, and not $sum; fetch the reference again" out
report another_reference_is_refused_by_its_hash $? "$(head -1 out)"
rm -rf odd

[ "${ONLY-}" != reports ] || exit 0

# ---- another reference, and layouts ----
"$trivium" oracle record --out again "${model[@]}" >out 2>&1
for part in recording.json tokens.json scale-fp64.json scale-fp32.json scale-bf16.json scale-fp16.json \
    model/model.safetensors step-1 step-2; do
    diff -r ref/$part again/$part >/dev/null || echo "not ok a_reference_is_the_same_to_the_bit $part"
done
report a_reference_is_the_same_to_the_bit 0

try_layout() { # NAME RANKS PRECISION OPTIONS...
    local name=$1 n=$2 precision=$3
    shift 3
    rm -rf run
    "$trivium" launch -n "$n" oracle record --out run "${model[@]}" --precision "$precision" "$@" >out 2>&1 &&
        "$trivium" oracle check run ref >out 2>&1 && grep -q '^all right: .* tensors' out && ! grep -q 'are not in' out
    report "$name" $? "$(head -2 out | tr '\n' ' ')"
}
try_layout a_layout_equals_it_in_fp64 4 fp64 --dp 2 --tp 2 --sp --zero 1 --micro-batch 2
try_layout a_layout_equals_it_in_fp32 4 fp32 --cp 2 --pp 2 --micro-batch 1
try_layout a_layout_equals_it_in_bf16 2 bf16 --dp 2 --zero 3 --recompute full --micro-batch 2
try_layout a_layout_equals_it_in_fp16 4 fp16 --dp 2 --tp 2 --zero 2 --micro-batch 2
qwen=("${model[@]}" --arch llama --kv-heads 2 --ffn 48 --qk-norm head)
"$trivium" oracle record --out heads "${qwen[@]}" >out 2>&1 && grep -q '"Qwen3' heads/model/config.json &&
    "$trivium" launch -n 2 oracle record --out run2 "${qwen[@]}" --precision fp32 --tp 2 >out 2>&1 &&
    "$trivium" oracle check run2 heads >out 2>&1 && grep -q '^all right: .* tensors' out && ! grep -q 'are not in' out
report norms_of_heads_equal_it $? "$(head -1 out)"
"$trivium" oracle record --out skipped "${model[@]}" --precision fp16 --loss-scale 1e9 >out 2>&1
[ $? = 1 ] && grep -q "step 1 was skipped: gradients overflow in fp16; give a smaller --loss-scale" out
report a_skipped_step_is_said $? "$(head -1 out)"

# ---- calls: of four ranks, one of which calls something else ----
"$trivium" launch -n 4 oracle record --out calls "${model[@]}" --precision fp32 --dp 2 --tp 2 >out 2>&1 &&
    "$trivium" oracle check calls ref >out 2>&1 && grep -q "^calls: .* alike on all members" out &&
    grep -q "dp (ranks 1, 3): .* bytes sent" out
report calls_of_a_run_are_alike $? "$(head -2 out | tr '\n' ' ')"
cat >respell.py <<'P'
import json, sys
rows = [json.loads(line) for line in open("bad/collectives-1.jsonl")]
at = [i for i, r in enumerate(rows) if r["group"] == [1, 3]]
if sys.argv[1] == "swapped":
    tp = [i for i, r in enumerate(rows) if r["name"] == "tp"]
    first = next(i for i, j in zip(tp, tp[1:]) if rows[i]["count"] != rows[j]["count"])
    second = tp[tp.index(first) + 1]
    rows[first], rows[second] = rows[second], rows[first]
if sys.argv[1] == "missing": del rows[at[0]]
if sys.argv[1] == "count": rows[at[0]]["count"] += 1
if sys.argv[1] == "of four": next(r for r in rows if len(r["group"]) == 4)["dtype"] = "bf16"
for i, r in enumerate(rows): r["sequence"] = i
open("bad/collectives-1.jsonl", "w").write("".join(json.dumps(r) + "\n" for r in rows))
P
respell() { # NAME WHAT TEXT...
    local name=$1 what=$2 text missing=0
    shift 2
    rm -rf bad
    cp -r calls bad
    python3 respell.py "$what"
    "$trivium" oracle check bad ref >out 2>&1
    [ $? = 1 ] || missing=1
    for text in "$@"; do grep -qE -- "$text" out || missing=1; done
    report "$name" $missing "$(head -3 out | tr '\n' ' ')"
}
respell a_swapped_call_is_named swapped "^no tensor is wrong" \
    "^two calls are in another order: step 1, group tp \(ranks 0, 1\): .*rank 1's call [0-9]+ is"
respell a_missing_call_is_named missing \
    "^a call is missing, or one is too many: step [12], group dp \(ranks 1, 3\): rank 3's call [0-9]+ is .*; rank 1"
respell another_count_is_named count \
    "^calls differ: step 1, group dp \(ranks 1, 3\): .*rank 1's call [0-9]+ is all_reduce of [0-9]+ fp32"
respell who_is_alone_is_blamed "of four" \
    "^calls differ on rank 1: step 1, group [a-z]+ \(ranks 0, 1, 2, 3\): rank 1's call [0-9]+ is .* bf16; rank 0's"

# ---- what is refused, in one line ----
refused() { # NAME CODE TEXT COMMAND...
    local name=$1 code=$2 text=$3
    shift 3
    "$trivium" oracle "$@" >out 2>&1
    [ $? = "$code" ] && grep -qF -- "$text" out && [ "$(grep -c E_ out)" = 1 ]
    report "$name" $? "$(head -1 out)"
}
refused a_folder_that_is_there_is_left_alone 1 "give --out a new folder" record --out ref "${model[@]}"
refused record_says_where 2 "give --out DIR" record "${model[@]}"
refused no_recording_is_said 2 "is nowhere a recording?" check nowhere ref
refused a_recording_is_no_reference 2 "is a recording, and no reference" check ref run
echo '{"format": "trivium-recording", "version": 9, "dtype": "fp32", "steps": 1}' >bad/recording.json
refused another_version_is_said 2 "version 9" check bad ref
echo '{"format": "trivium-recording", "version": 1, "dtype": "fp33", "steps": 1}' >bad/recording.json
refused another_precision_is_said 2 "fp33" check bad ref
phases() { rm -rf odd && cp -r ref odd && python3 -c 'import json, sys
head = json.load(open("odd/recording.json")); exec(sys.argv[1]); json.dump(head, open("odd/recording.json", "w"))' "$1"
}
phases 'head["order"][3].pop("phase")'
refused a_reference_without_a_phase_is_none 2 "ln_2.act and phase (none)" check run odd
phases 'head["order"][0]["phase"] = "forward<script>alert(1)</script>"'
refused a_phase_is_one_of_five 2 "phase forward<script>alert" check run odd
phases 'head["order"][2].pop("name")'
refused an_entry_names_a_tensor 2 "entry 2 of order has name (none)" check run odd
refused an_asynchronous_schedule_cannot_be_recorded 2 "use schedule 1f1b" record \
    --out async "${model[@]}" --schedule 2bw
refused a_gpt_with_experts_is_nobodys 2 "experts=4" record --out experts "${model[@]}" --experts 4
report what_is_refused_leaves_no_folder $([ ! -e experts ]; echo $?)
"$trivium" oracle record --out head "${model[@]}" --tie off >out 2>&1 &&
    grep -q '"tie_word_embeddings": false' head/model/config.json && "$trivium" oracle show head >out 2>&1 &&
    grep -q '^lm_head.weight' out
report a_gpt_with_a_head_of_its_own_is_a_reference $? "$(head -1 out)"
"$trivium" launch -n 2 oracle record --out experts "${model[@]}" --dp 2 --experts 4 >out 2>&1
grep -q "others have no h0.*; experts are those of arch=mixtral" out && [ ! -e experts ]
report nor_can_its_run_be_recorded $? "$(head -1 out)"
"$trivium" oracle show ref 1 transformer.h.0.attn.c_attn.weight.grad >out 2>&1 && grep -q "rank 0: (32, 96)" out
report a_tensor_is_shown $?
# Twelve digits, which another program's run can be compared with
loss=$("$trivium" oracle show ref 1 loss 2>&1 | tail -1)
[[ $loss =~ ^[0-9]\.[0-9]{9,12}$ ]]
report a_loss_of_fp64_has_its_digits $? "$loss"
