#!/bin/bash
# Other projects' files, held against PyTorch: a GPT-2 with Hugging Face's names is imported, trained by one rank and by
# eight (dp2 tp2 pp2), and exported again, for Hugging Face and for llm.c; tests/hf_reference.py, an implementation by
# itself, makes the file, trains the same, and compares. And a GPT-2 with a head of its own and erf's gelu, Llamas,
# Mistrals and Qwens 2 and 3 with and without windows, an OLMo 2, a Seed-OSS, a Mixtral, Qwens 3 and DeepSeeks with
# experts, a dots.llm1, a BERT, a T5 and a T5 1.1, with the models of transformers themselves
# (tests/hf_transformers.py).
#
# Run from the project's root. MODELS: which of those (default: eight; ALL=1: all); SCORES: and with which attention of
# other models (default: capped sinks). BUILD: where the program is (default: build).
# PYTHON: one with torch and numpy, and for the second part transformers.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
reference=$PWD/tests/hf_reference.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=
for candidate in ${PYTHON-python3 /usr/bin/python3}; do
    if "$candidate" -c 'import numpy, torch' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "skip imported_model_trains_as_in_pytorch no Python with torch and numpy here"; exit 0
fi
cd "$work" || exit 1

plain=(--device cpu --threads 1 --precision fp64 --seq 32 --vocab 250 --data tokens --data-format text \
    --val-data tokens --global-batch 8 --beta1 0.9 --beta2 0.95 --eps 1e-8 --weight-decay 0.1 --clip 0.5 --dropout 0 \
    --log warn)
steps=(--steps 5 --lr 1e-2 --min-lr 1e-3 --warmup 2)
common=("${plain[@]}" "${steps[@]}" --init imported)
settings=("${common[@]}" --layers 2 --hidden 64 --heads 4)

run() { "$@" >log 2>&1 || { echo "not ok imported_model_trains_as_in_pytorch $*: $(grep E_ log | head -1)"; exit 1; }; }
run "$python" "$reference" make .
run "$trivium" checkpoint import --from hf model.safetensors --to imported
run "$trivium" train "${settings[@]}" --metrics serial.jsonl
run "$trivium" launch -n 8 train "${settings[@]}" --dp 2 --tp 2 --pp 2 --metrics layout.jsonl --save saved
mkdir trained
run "$trivium" checkpoint export saved --to hf trained/model.safetensors
run "$trivium" checkpoint export saved --to llmc trained.bin
"$python" "$reference" check . || echo "not ok exported_files the comparison ended with code $?"

# ---- transformers' own models ----

if ! "$python" -c 'import transformers' 2>/dev/null; then
    echo "skip llama_trains_as_in_transformers no transformers here"; exit 0
fi
beside=${reference%/*}/hf_transformers.py
try_model() { # MODEL; stands in a folder of its own
    local more=() sizes experts=
    case $1 in mixtral | qwen3_moe* | gpt_oss* | dots1* | *_experts) experts=yes ;; esac
    [ "$experts" ] && more=(--capacity 0 --aux-loss 0 --z-loss 0)         # transformers drops no token
    [[ $1 = *_moved ]] && more+=(--router-bias-rate 0.02)                 # RATE of hf_transformers.py
    run "$python" "$beside" make "$1" .
    run "$trivium" checkpoint import --from hf model --to imported
    read -ra sizes <<<"$(sed -n 's/^train with: --init imported //p' log)"
    run "$trivium" train "${common[@]}" "${sizes[@]}" "${more[@]}" --metrics serial.jsonl
    [ "$experts" ] && more+=(--moe-packed on)                             # and so it is in the other layout
    run "$trivium" launch -n 8 train "${common[@]}" "${sizes[@]}" "${more[@]}" --dp 2 --tp 2 --pp 2 \
        --metrics layout.jsonl --save saved
    case $1$experts in
        t5*) more+=(--dp 4 --tp 2) ;;                    # t5 has no cp, and sp does not divide its 29 tokens
        *yes) more+=(--dp 4 --ep 2 --tp 2 --sp on --moe-group 16) ;;
        *) more+=(--dp 2 --tp 2 --cp 2 --sp on) ;;
    esac
    run "$trivium" launch -n 8 train "${common[@]}" "${sizes[@]}" "${more[@]}" --zero 3 --recompute full \
        --metrics other.jsonl
    mkdir trained
    run "$trivium" checkpoint export saved --to hf trained/model.safetensors
    "$python" "$beside" check "$1" . 2>log ||
        echo "not ok $1_trains_as_in_transformers the comparison ended with code $?: $(tail -1 log)"
}
try_scores() { # MODEL OPTIONS...: from weights that some steps at a high rate have enlarged
    local model=$1 sizes=(--arch llama --layers 2 --hidden 64 --heads 8 --kv-heads 2 --ffn 96 --norm-eps 1e-3 \
        --rope-theta 500 --tie off --window 5)
    shift
    sizes+=("$@")
    cp ../tokens .
    run "$trivium" train "${plain[@]}" "${sizes[@]}" --steps 8 --lr 0.03 --min-lr 0.03 --warmup 0 --save start
    run "$trivium" train "${plain[@]}" "${steps[@]}" --init start --metrics serial.jsonl --save end
    run "$trivium" launch -n 8 train "${plain[@]}" "${steps[@]}" --init start --dp 2 --tp 2 --pp 2 \
        --metrics layout.jsonl
    run "$trivium" launch -n 8 train "${plain[@]}" "${steps[@]}" --init start --dp 2 --tp 2 --cp 2 \
        --metrics other.jsonl
    "$python" "$beside" scores "$model" . 2>log ||
        echo "not ok attention_$model the comparison ended with code $?: $(tail -1 log)"
}
for model in ${SCORES-capped sinks}; do
    words=(--attention-cap 0.5)
    [ "$model" = sinks ] && words=(--attention-sinks on)
    (mkdir "$model" && cd "$model" && try_scores "$model" "${words[@]}")
done
for model in ${MODELS-gpt2 llama3 qwen3_window mixtral deepseek_v3_experts gpt_oss_mxfp4 bert t5 \
    ${ALL:+llama mistral mistral_window qwen2 qwen2_window qwen3 olmo2 seed_oss deepseek_v2 deepseek_v3 qwen3_moe \
    qwen3_moe_dense gpt_oss dots1 dots1_moved deepseek_v2_experts t5_1_1}}; do
    (mkdir "$model" && cd "$model" && try_model "$model")
done
