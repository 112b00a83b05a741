#!/bin/bash
# Adapters of tools/oracle: each trains as the reference does and oracle check finds nothing, and of each bug planted in
# one it names the tensor; and scripts that are none of ours, as they are. PYTHON: one with torch, transformers,
# safetensors and accelerate (default: that of tools/oracle/venv.py, if it is there). ORACLE_PYTHON: one with deepspeed
# and megatron-core besides, for their rows, and megatron-bridge for published bugs (default: that of venv.py
# --frameworks). BUILD: where the program is. Half an hour of a processor; ONLY=WORD: rows with that word.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
adapters=$PWD/tools/oracle parallel=$PWD/tests/long/oracle_script.py rows=$PWD/tests/long/oracle_rows.py
venv=$PWD/build-bench-venv/bin/python
zero=${ORACLE_PYTHON:-$PWD/build-oracle-venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1 DS_ACCELERATOR=cpu

python=
for candidate in ${PYTHON-$venv python3}; do
    if "$candidate" -c 'import torch, transformers, safetensors' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "skip oracle_adapters no Python with torch, transformers and safetensors here (tools/oracle/venv.py makes one)"
    exit 0
fi
cd "$work" || exit 1
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1 ${3-}"; fi; }

llama="--arch llama --hidden 64 --heads 8 --ffn 128 --tie off --steps 3"
declare -A options=([gpt]="--steps 3" [llama]="$llama --kv-heads 4 --layers 4"
    [experts]="--arch mixtral --experts 4 --experts-per-token 2 --capacity 0 --aux-loss 0 --z-loss 0 --hidden 64
        --heads 8 --kv-heads 4 --ffn 64 --tie off --steps 3 --layers 2 --depth ops"
    [modules]="$llama --kv-heads 4 --layers 2 --depth ops"
    [latents]="$llama --kv-heads 8 --head-dim 24 --kv-lora-rank 24 --q-lora-rank 24 --rope-head-dim 8 --v-head-dim 12
        --rope-interleave on --rope-scaling yarn:4:32:1:32:1 --mscale-all-dim 0.7 --layers 2 --depth ops")

make_references() { # NAME...: those that are not there
    local name
    for name; do
        [ ! -e "$name" ] || continue
        # shellcheck disable=SC2086
        "$trivium" oracle record --out "$name" ${options[$name]} --log warn >log 2>&1 && continue
        echo "not ok oracle_adapters no reference: $(grep E_ log | head -1)"
        exit 1
    done
}

# row WANTED REFERENCE RANKS ADAPTER ARGUMENTS...: wanted is "right", or what check must call the first wrong one
row() {
    local kind=torch name
    name="oracle_$4$(printf '_%s' "$2" "$3" "${@:5}" | tr -d ' -')"
    [[ $name == *${ONLY-}* ]] || return 0
    case $4 in deepspeed_zero | megatron_* | hf_tp | hf_ep | torchtitan_llama) kind=$4 ;; esac
    echo "$1|$name|$2|$3|$4|${*:5}" >>"rows.$kind"
}

# train PYTHON KIND MODULES...: the rows of a kind; a Python that has no such modules skips them
train() {
    local with=$1 kind=$2
    shift 2
    [ -e "rows.$kind" ] || return 0
    if "$with" -c 'import importlib, sys; [importlib.import_module(m) for m in sys.argv[1:]]' "$@" >log 2>&1; then
        "$with" "$rows" "$adapters" "$trivium" "$work" "$@" <"rows.$kind" 2>log ||
            echo "not ok oracle_$kind $(tail -1 log)"
    else
        cut -d'|' -f2 "rows.$kind" |
            sed "s/^/skip /; s/$/ no Python with it here (tools\/oracle\/venv.py --frameworks makes one)/"
    fi
}

# ---- correct ones ----
for dtype in fp64 fp32 bf16; do
    row right gpt 1 torch_eager --dtype $dtype
    for ranks in 1 2; do row right gpt $ranks torch_own --dtype $dtype; done
    for ranks in 2 4; do
        row right gpt $ranks torch_ddp --dtype $dtype
        for sequence in off on; do row right modules $ranks torch_tp --dtype $dtype --sequence $sequence; done
        row right modules $ranks torch_cp --dtype $dtype
        row right gpt $ranks torch_cp --dtype $dtype --balance none --rotate alltoall
        for reference in gpt llama; do
            row right $reference $ranks torch_fsdp --dtype $dtype
            [ $ranks = 2 ] || row right $reference 4 torch_fsdp --dtype $dtype --replicas 2
            for schedule in 1f1b gpipe; do
                row right $reference $ranks torch_pp --dtype $dtype --schedule $schedule
            done
        done
        row right modules $ranks hf_tp --dtype $dtype
        for tp in 1 2; do row right experts $ranks hf_ep --dtype $dtype --tp $tp; done
        [ $dtype = fp64 ] || row right modules $ranks megatron_core --dtype $dtype
        for axis in ep cp; do
            [ $dtype = fp64 ] || row right experts $ranks megatron_moe --dtype $dtype --$axis $ranks
        done
        for axis in tp cp; do
            [ $dtype = fp64 ] || row right latents $ranks megatron_mla --dtype $dtype --$axis 2
        done
        for stage in 1 2 3; do
            [ $dtype = fp64 ] || row right gpt $ranks deepspeed_zero --dtype $dtype --stage $stage
        done
        for tp in 1 2; do [ $dtype = fp64 ] || row right modules $ranks torchtitan_llama --dtype $dtype --tp $tp; done
    done
    row right modules 4 torch_tp --dtype $dtype --sequence on --dp 2
    row right modules 4 torch_cp --dtype $dtype --dp 2
    row right experts 2 hf_ep --dtype $dtype --tp 2 --how all_reduce
    row right experts 4 hf_ep --dtype $dtype --tp 2 --ep 4
    [ $dtype = fp64 ] || row right experts 4 megatron_moe --dtype $dtype --ep 2 --cp 2
    [ $dtype = fp64 ] || row right latents 4 megatron_mla --dtype $dtype --tp 2 --cp 2
    row right gpt 2 torch_pp --dtype $dtype --schedule interleaved
done
row right gpt 1 torch_eager --dtype fp16
row right llama 1 torch_eager --dtype fp16

# ---- planted ones: WANTED, REFERENCE, RANKS, ADAPTER, BUG, more arguments ----
while IFS='|' read -r wanted reference ranks adapter bug more; do
    # shellcheck disable=SC2086
    [ -z "$wanted" ] || row "$wanted" "$reference" "$ranks" "$adapter" --plant "$bug" $more
done <<'ROWS'
step 1, loss: loss|gpt|1|torch_eager|sum
step 1, norm: grad_norm|gpt|1|torch_eager|clip-after
step 1, update, layer 0: transformer.h.0.ln_1.weight.param|gpt|1|torch_eager|decay-all
step 1, update: lr|gpt|1|torch_eager|no-warmup
step 1, update: transformer.wte.weight.param|gpt|1|torch_eager|eps
step 1, backward, layer 1: transformer.h.1.mlp.c_fc.weight.grad|gpt|1|torch_eager|thousandth
step 1, backward: transformer.ln_f.weight.grad|gpt|1|torch_eager|scaled|--dtype fp16
step 1, backward, layer 3: transformer.h.3.attn.c_attn.bias.grad|gpt|2|torch_own|biases
step 1, forward, layer 0: transformer.h.0.act|gpt|1|torch_own|mask
step 1, forward, layer 0: transformer.h.0.act|gpt|1|torch_own|gelu
step 2, forward: transformer.drop.act ~ stale weights|gpt|2|torch_own|stale
step 1, backward: transformer.ln_f.weight.grad ~ wrong group|gpt|4|torch_own|group
step 1, backward: transformer.ln_f.weight.grad|gpt|2|torch_ddp|sum
step 1, backward: transformer.ln_f.act_grad|gpt|2|torch_ddp|divided-twice
step 1, backward, layer 1: transformer.h.1.mlp.c_proj.bias.grad|gpt|2|torch_ddp|unsynced
step 1, backward: transformer.ln_f.weight.grad|gpt|2|torch_ddp|no-sync-last
step 1, backward: transformer.wte.weight.grad|gpt|2|torch_ddp|tied
step 1, norm: grad_norm|gpt|2|torch_ddp|norm-per-rank
step 1, forward: transformer.drop.act|gpt|2|torch_ddp|same-samples
step 1, backward: transformer.ln_f.weight.grad|gpt|2|torch_fsdp|sum
step 1, backward: transformer.ln_f.act_grad|gpt|2|torch_fsdp|divided-twice
step 1, backward, layer 1: transformer.h.1.mlp.c_proj.bias.grad|gpt|2|torch_fsdp|unsynced
step 1, norm: grad_norm|gpt|2|torch_fsdp|local-norm
step 1, update: transformer.wte.weight.param|gpt|2|torch_fsdp|early-optimizer
step 1, backward: transformer.wte.weight.grad|gpt|2|torch_fsdp|tied
step 1, forward: transformer.drop.act|gpt|2|torch_fsdp|same-samples
step 1, backward: transformer.ln_f.weight.grad|gpt|4|torch_fsdp|replicas-apart|--replicas 2
step 1, forward, layer 1: model.layers.1.act|modules|2|hf_tp|no-reduce
step 1, forward: model.embed_tokens.act|modules|2|hf_tp|vocabulary
step 1, forward, layer 1: model.layers.1.self_attn.k_proj.act|modules|2|hf_tp|heads
step 1, norm: grad_norm|modules|2|hf_tp|local-norm
step 1, norm: grad_norm|modules|2|hf_tp|norm-twice
step 1, update, layer 1: model.layers.1.input_layernorm.weight.moment1|modules|2|hf_tp|norms-drift
step 1, backward: lm_head.weight.grad|modules|2|hf_tp|world
step 1, backward, layer 1: model.layers.1.post_attention_layernorm.act_grad|experts|2|hf_ep|no-reduce-back|--tp 2 --how all_reduce
step 1, backward, layer 1: model.layers.1.block_sparse_moe.gate.weight.grad|experts|2|hf_ep|router-partial|--tp 2 --how all_reduce
step 1, forward, layer 1: model.layers.1.act|experts|2|hf_ep|swapped
step 1, forward, layer 1: model.layers.1.act|experts|2|hf_ep|interleaved
step 1, forward, layer 0: model.layers.0.act|experts|2|hf_ep|unsorted
step 1, forward, layer 1: model.layers.1.act|experts|2|hf_ep|unnormalised
step 1, forward, layer 1: model.layers.1.act|experts|2|hf_ep|router-bf16
step 1, backward, layer 1: model.layers.1.block_sparse_moe.experts.0.w2.weight.grad|experts|4|hf_ep|divisor
step 1, loss: loss|experts|2|hf_ep|aux-loss
step 1, norm: grad_norm|experts|2|hf_ep|own-norm
step 1, update, layer 0: model.layers.0.block_sparse_moe.experts.0.w1.weight.param|experts|2|hf_ep|stacked
step 1, forward, layer 1: model.layers.1.act|modules|2|torch_tp|no-reduce
step 1, backward, layer 1: model.layers.1.post_attention_layernorm.act_grad|modules|2|torch_tp|no-reduce-back
step 1, backward, layer 1: model.layers.1.post_attention_layernorm.weight.grad|modules|2|torch_tp|norms-apart|--sequence on
step 1, forward: model.embed_tokens.act|modules|2|torch_tp|vocabulary
step 1, forward, layer 1: model.layers.1.self_attn.k_proj.act|modules|2|torch_tp|heads
step 1, norm: grad_norm|modules|2|torch_tp|local-norm
step 1, norm: grad_norm|modules|2|torch_tp|norm-twice
step 1, backward: lm_head.weight.grad ~ ratio|modules|4|torch_tp|world|--dp 2
step 1, forward, layer 0: model.layers.0.post_attention_layernorm.act|modules|2|torch_cp|positions
step 1, loss: loss|modules|2|torch_cp|own-shift
step 1, loss: loss|modules|2|torch_cp|targets-in-order
step 1, forward, layer 1: model.layers.1.post_attention_layernorm.act|modules|2|torch_cp|one-layer
step 1, forward, layer 0: model.layers.0.post_attention_layernorm.act|modules|2|torch_cp|not-causal|--balance none
step 1, backward, layer 1: model.layers.1.self_attn.k_proj.act_grad|modules|2|torch_cp|keys-cut
step 1, backward: lm_head.weight.grad|modules|4|torch_cp|unsynced|--dp 2
step 1, backward: lm_head.weight.grad|modules|4|torch_cp|sum|--dp 2
step 1, loss: loss|modules|2|torch_cp|own-loss
step 1, norm: grad_norm|modules|2|torch_cp|local-norm
step 1, backward: transformer.ln_f.weight.grad|gpt|2|torch_pp|divisor
step 1, backward: transformer.wte.weight.grad|gpt|2|torch_pp|tied
step 1, norm: grad_norm|gpt|2|torch_pp|norm-per-stage
step 1, norm: grad_norm|gpt|2|torch_pp|norm-twice
step 1, forward, layer 1: transformer.h.1.act|gpt|2|torch_pp|layer-twice
step 1, loss: loss|gpt|2|torch_pp|targets
step 1, backward: lm_head.weight.grad|modules|2|torchtitan_llama|averaged
step 1, loss: loss|modules|2|torchtitan_llama|own-tokens
step 1, forward, layer 0: model.layers.0.post_attention_layernorm.act|modules|2|torchtitan_llama|scaled-rope
step 1, forward, layer 0: model.layers.0.input_layernorm.act|modules|2|torchtitan_llama|epsilon
step 1, forward, layer 0: model.layers.0.self_attn.q_proj.act|modules|2|torchtitan_llama|halves
step 1, forward, layer 0: model.layers.0.mlp.gate_proj.act|modules|2|torchtitan_llama|gate-up
step 1, forward, layer 0: model.layers.0.post_attention_layernorm.act|modules|2|torchtitan_llama|documents
step 1, norm: grad_norm|modules|2|torchtitan_llama|local-norm
step 1, update, layer 0: model.layers.0.input_layernorm.weight.param|modules|2|torchtitan_llama|norms-decay
step 1, forward: model.embed_tokens.act|modules|2|torchtitan_llama|vocabulary
step 1, forward: model.embed_tokens.act|modules|2|torchtitan_llama|same-samples
step 1, backward: transformer.ln_f.act_grad|gpt|2|deepspeed_zero|divided-twice|--stage 2
step 1, update: transformer.wte.weight.moment1|gpt|2|deepspeed_zero|own-clipping|--stage 2
step 1, update, layer 0: transformer.h.0.ln_1.weight.param|gpt|2|deepspeed_zero|decay-all|--stage 2
step 1, backward: transformer.wte.weight.grad|gpt|2|deepspeed_zero|tied|--stage 2
step 1, forward: transformer.drop.act|gpt|2|deepspeed_zero|same-samples|--stage 2
step 2, update: lr|gpt|2|deepspeed_zero|late-rate|--stage 2
step 1, update: transformer.wte.weight.moment2|gpt|2|deepspeed_zero|betas|--stage 2
step 1, loss: loss|gpt|2|deepspeed_zero|own-loss|--stage 2
step 1, forward: transformer.drop.act|gpt|2|deepspeed_zero|dropped|--stage 2
step 1, backward, layer 1: model.layers.1.block_sparse_moe.experts.0.w2.weight.grad|experts|4|megatron_moe|experts-apart|--ep 2
step 1, backward, layer 1: model.layers.1.block_sparse_moe.experts.0.w2.weight.grad|experts|2|megatron_moe|experts-mixed|--ep 2
step 1, backward, layer 1: model.layers.1.block_sparse_moe.experts.0.w2.weight.grad|experts|2|megatron_moe|experts-local|--ep 2
step 1, forward, layer 0: model.layers.0.act|experts|2|megatron_moe|swapped|--ep 2
step 1, backward, layer 1: model.layers.1.block_sparse_moe.gate.weight.grad|experts|2|megatron_moe|router-apart|--ep 2
step 1, forward, layer 0: model.layers.0.act|experts|2|megatron_moe|softmax-first|--ep 2
step 1, backward, layer 1: model.layers.1.block_sparse_moe.gate.weight.grad|experts|2|megatron_moe|gates-cut|--ep 2
step 1, norm: grad_norm|experts|2|megatron_moe|norm-local|--ep 2
step 1, norm: grad_norm|experts|2|megatron_moe|norm-twice|--ep 2
step 1, forward, layer 0: model.layers.0.act|experts|2|megatron_moe|positions|--cp 2
step 1, forward, layer 0: model.layers.0.act|experts|2|megatron_moe|zigzag|--cp 2
step 1, backward, layer 1: model.layers.1.self_attn.k_proj.weight.grad|experts|2|megatron_moe|keys-kept|--cp 2
step 1, backward: lm_head.weight.grad|experts|2|megatron_moe|cp-apart|--cp 2
step 1, backward, layer 1: model.layers.1.self_attn.kv_a_proj_with_mqa.weight.grad|latents|2|megatron_mla|shared-key|--tp 2
step 1, backward, layer 1: model.layers.1.self_attn.q_a_layernorm.weight.grad ~ ratio|latents|2|megatron_mla|summed-twice|--tp 2
step 1, backward, layer 1: model.layers.1.self_attn.kv_a_layernorm.weight.grad ~ unsummed|latents|2|megatron_mla|latent-apart|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|latents-eps|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|mscale|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|narrow|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|halves|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|first|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|values-first|--tp 2
step 1, forward, layer 0: model.layers.0.act|latents|2|megatron_mla|positions|--cp 2
step 1, backward, layer 1: model.layers.1.self_attn.kv_b_proj.weight.grad|latents|2|megatron_mla|keys-kept|--cp 2
step 1, norm: grad_norm|latents|2|megatron_mla|norm-twice|--tp 2
step 1, norm: grad_norm|modules|2|megatron_core|norm-twice
step 1, norm: grad_norm|modules|2|megatron_core|local-norm
step 1, forward, layer 0: model.layers.0.act|modules|2|megatron_core|gate-up
step 1, forward: model.embed_tokens.act|modules|2|megatron_core|vocabulary
ROWS

# ---- all of them; and one as a user starts it ----
# shellcheck disable=SC2046 # names
make_references $(cat rows.* 2>/dev/null | cut -d'|' -f3 | sort -u)
models=(transformers.models.gpt2.modeling_gpt2 transformers.models.llama.modeling_llama torch.distributed.fsdp)
train "$python" torch "${models[@]}" torch.distributed.tensor.parallel torch.distributed.pipelining
train "$python" hf_tp accelerate transformers.integrations.tensor_parallel "${models[@]}"
train "$python" hf_ep transformers.distributed.expert_parallel transformers.models.mixtral.modeling_mixtral
# torchtitan begins CUDA when it is imported, and no fork can do that again
train "$zero" torchtitan_llama spmd_types "${models[@]}"
train "$zero" deepspeed_zero deepspeed "${models[@]}"
train "$zero" megatron_core megatron.core.models.gpt.gpt_model "${models[@]}"
for kind in megatron_moe megatron_mla; do
    train "$zero" $kind megatron.core.recompute megatron.core.models.gpt.gpt_model "${models[@]}"
done
# ---- a script as it is: the page's, with what stands there (docs/oracle.md) ----
# shellcheck disable=SC2016 # the page's marks
if [[ oracle_script == *${ONLY-}* || oracle_published == *${ONLY-}* ]]; then
    "$python" -B - "$adapters/../package" "$PWD/site/trivium" <<'P'
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("package", sys.argv[1])
package = importlib.util.module_from_spec(importlib.util.spec_from_loader("package", loader))
loader.exec_module(package)
package.write_python(sys.argv[2])
P
    mkdir site/trivium/bin && ln -s "$trivium" site/trivium/bin/trivium
fi
if [[ oracle_script == *${ONLY-}* ]]; then
    sed '1,/^## A script of your own/d; /^## /,$d' "$adapters/../../docs/oracle.md" >section
    sed -n '/^```python/,/^```/p' section | sed '1d;$d' >train.py
    script() { PYTHONPATH=site PYTHONWARNINGS=ignore "$@"; }
    on_ranks() {
        rm -rf run
        script "$python" -m torch.distributed.run --nproc-per-node "$1" --master-port $((20000 + RANDOM % 20000)) \
            "${@:2}" >log 2>&1
        script "$python" -m trivium.oracle check run "${AGAINST:-mine}" >out 2>&1
    }
    # other weights each time, and a head so small that the losses are alike
    sed '/^with record/i torch.seed(), model[0].weight.data.normal_(), model[2].weight.data.mul_(1e-3)' \
        train.py >drawn.py
    script "$python" -m trivium.oracle reference drawn drawn.py >out 2>&1
    [ $? = 1 ] && [ ! -e drawn/scale-fp32.json ] && grep -q '^reference: .*(0.act of step 1 differs by .* seed it' out
    report oracle_script_must_be_seeded $? "$(tail -1 out)"
    # in bf16 dropout of another seed, behind a first activation and with losses that are alike
    sed -e 's/dropout=0,/dropout=0.1,/' -e '/^with record/i torch.seed(), model[2].weight.data.mul_(1e-3)' \
        -e '/^optimizer/i model.bfloat16()' train.py >dropped.py
    script "$python" -m trivium.oracle reference dropped dropped.py >out 2>&1
    [ $? = 1 ] && grep -q '^reference: .*(1\.[^ ]*act of step 1 differs by .* seed it' out
    report oracle_script_seeds_dropout_in_bf16 $? "$(tail -1 out)"
    while IFS='|' read -r name wanted; do
        script "$python" - "$name" <<'P' >out 2>&1
import json, os, sys
import safetensors.torch, torch
from trivium.oracle import reference

def write(folder, steps):
    for n, step in enumerate(steps):
        os.makedirs(f"{folder}/step-{n + 1}")
        safetensors.torch.save_file({k: torch.tensor(x, dtype=torch.float64) for k, x in step.items()},
                                    f"{folder}/step-{n + 1}/rank-0.safetensors")
    order = [{"name": k, "phase": "forward" if k.endswith("act") else "update"} for k in steps[-1]]
    with open(f"{folder}/recording.json", "w") as f:
        json.dump({"dtype": "fp32", "steps": len(steps), "order": order}, f)

case, names = sys.argv[1], ["written", *(f"written/shaken-{k}" for k in range(1, reference.RUNS + 1)), "written/again"]
runs = {name: [{"a.act": [1, 2], "b.act": [3, 4], "w.param": [1, 1]} for step in range(2)] for name in names}
nan, some = [4, float("nan")], {"nan": names, "nan-shaken": names[3:4], "last": names, "shaken": names[3:4],
                                "another": names[-1:], "order": names[-1:]}[case]
for name in some:
    if case in ("last", "shaken"):
        del runs[name][1]["b.act"]
    else:
        runs[name][1]["b.act"] = nan if "nan" in case else [3, 5 if case == "another" else 4.000001]
for name, steps in runs.items():
    write(name, steps)
reference.check_seeded("written", "written/again")
reference.measure("written")
P
        grep -q "^$wanted\$" out
        report "oracle_script_runs_with_$name" $? "$(tail -1 out)"
        rm -rf written
    done <<'ROWS'
nan|reference: b.act of step 2 has infinity or NaN, .* (steps=)
nan-shaken|reference: b.act of step 2 has infinity or NaN in shaken run 3, .* (steps=)
last|reference: left out 1 tensors that not all steps have.*: b.act
shaken|reference: left out 1 tensors that not all steps have.*: b.act
another|reference: .*(b.act of step 2 differs by 0.25); seed it.*
order|written: 2 steps, 3 tensors each, in fp32: a reference
ROWS
    script "$python" -m trivium.oracle reference mine train.py >out 2>&1 && grep -q '5 steps, 86 tensors' out
    report oracle_script_makes_its_reference $? "$(tail -1 out)"
    on_ranks 2 train.py && grep -q '^all right: 430 tensors' out && grep -q '^calls: .* alike' out
    report oracle_script_on_two_ranks_is_right $? "$(head -1 out)"
    # the page's job for a framework's CI: its shell steps, but the installation
    sed -n '/^```yaml/,/^```/p' "$adapters/../../docs/oracle.md" | sed -n 's/^        run: //p' >steps
    mkdir path
    printf '#!/bin/sh\nexec "%s" -m torch.distributed.run --standalone "$@"\n' "$python" >path/torchrun
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >path/python && ln -sf "$trivium" path/trivium && chmod +x path/*
    sum=$(script "$python" -m trivium.oracle hash mine)
    rm -rf run report
    (export PATH=$PWD/path:$PATH REFERENCE_SHA256=$sum && sed 1d steps >job && script bash -e job) >out 2>&1 &&
        [ "$(wc -l <steps)" = 4 ] && grep -q '^pip install' steps && grep -q "^$sum$" out && grep -q '^all right' out
    report oracle_script_the_pages_job_is_right $? "$(tail -1 out)"
    rm -rf run
    (export PATH=$PWD/path:$PATH REFERENCE_SHA256=0 && script bash -e job) >out 2>&1
    [ $? = 1 ] && grep -q '^hash: mine has ' out && [ "$(wc -l <out)" = 1 ] && [ ! -e run ]
    report oracle_script_the_pages_job_has_its_reference $? "$(tail -1 out)"
    # last digits are the processor's; the page leaves out the reference's version
    numbers() { sed -E 's/-?[0-9][-+.0-9a-z]*/N/g; s/(reference: a script), [^;]*/\1/'; }
    BUG=1 on_ranks 2 train.py
    [ $? = 1 ] && [ "$(grep -A 1 '^    first wrong' section | sed 's/^    //')" = "$(head -2 out)" ] &&
        [ "$(grep -A 7 '^    first wrong' section | sed 's/^    //' | numbers)" = "$(head -8 out | numbers)" ]
    report oracle_script_has_the_bug_of_the_page $? "$(head -5 out)"
    rm -rf mine
    script "$python" -m trivium.oracle reference mine "$parallel" >out 2>&1
    for how in ddp named strided accumulate fsdp; do
        HOW=$how on_ranks 2 "$parallel" && grep -q '^all right: 600 tensors' out
        report "oracle_script_is_right_by_$how" $? "$(head -1 out)"
    done
    HOW=padded script "$python" -m trivium.oracle reference padded "$parallel" >out 2>&1
    HOW=padded AGAINST=padded on_ranks 2 "$parallel" && grep -q '^all right: 600 tensors' out
    report oracle_script_is_right_with_padding $? "$(head -1 out)"
    while IFS='|' read -r wanted bug how suspect reference; do
        HOW=$how BUG=$bug AGAINST=$reference on_ranks 2 "$parallel"
        grep -qxF "first wrong: $wanted" out && grep -q "^  suspect: $suspect" out
        report "oracle_script_names_$bug" $? "$(head -1 out)"
    done <<'ROWS'
step 1, backward: blocks.1.up.bias.grad|unsynced|ddp|unaveraged
step 1, backward: blocks.1.up.weight.grad|thousandth|ddp|ratio
step 1, loss: loss|accumulated|accumulate|ratio
step 1, update: lr|rate|fsdp|rate: .*the next step
step 2, update: lr|late|ddp|rate: .*the step before
step 1, forward: blocks.0.out.act|scale|ddp|scores
step 1, update: tokens.weight.param|decay|ddp|decay
step 1, forward: tokens.act|neighbors|strided|permuted
step 1, loss: loss|means|padded|mean of means|padded
step 1, loss: loss|padding|padded|ratio: .*padding is counted in the mean|padded
ROWS
fi
# ---- published bugs, in the frameworks that have them ----
if [[ oracle_published == *${ONLY-}* ]]; then
    if "$zero" -c 'import importlib.metadata as m; m.version("megatron-bridge")' 2>log; then
        PYTHONPATH=site PYTHONWARNINGS=ignore "$zero" "${rows%/*}/oracle_published.py" "$trivium" \
            "$adapters/../../docs/oracle.md" 2>log || echo "not ok oracle_published $(tail -1 log)"
    else
        echo "skip oracle_published no Megatron-Bridge here (python3.12 tools/oracle/venv.py --frameworks brings it)"
    fi
fi
# ---- bugs drawn by readers who had not seen the detector ----
if [[ oracle_drawn == *${ONLY-}* || ${ONLY-} == oracle_drawn* ]]; then
    "$zero" -c 'import torchtitan, deepspeed, megatron.core' 2>log && all=$zero || all=$python
    KEEP=$work PYTHONWARNINGS=ignore "$all" "${rows%/*}/oracle_drawn.py" "$trivium" \
        "$adapters/../../docs/oracle.md" 2>log || echo "not ok oracle_drawn $(tail -1 log)"
fi
if [[ oracle_torchrun == *${ONLY-}* ]]; then
    make_references gpt
    rm -rf run
    "$python" -m torch.distributed.run --nproc-per-node 2 --master-port $((20000 + RANDOM % 20000)) \
        "$adapters/torch_ddp.py" gpt run >log 2>&1
    "$trivium" oracle check run gpt >out 2>&1
    grep -q '^all right: ' out && grep -q '^calls: .* alike on all members' out && echo "ok oracle_torchrun" ||
        echo "not ok oracle_torchrun $(head -1 out)"
fi
