#!/bin/bash
# Other projects' files, held against PyTorch: a GPT-2 with Hugging Face's names is imported, trained by one rank and by eight (dp2 tp2 pp2),
# and exported again, for Hugging Face and for llm.c; tests/hf_reference.py, an implementation by itself, makes the file, trains the same, and compares.
#
# Run from the project's root. BUILD: where the program is (default: build). PYTHON: one with torch and numpy.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
reference=$PWD/tests/hf_reference.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=
for candidate in ${PYTHON-python3 /usr/bin/python3}; do
    if "$candidate" -c 'import numpy, torch' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then echo "skip imported_model_trains_as_in_pytorch no Python with torch and numpy here"; exit 0; fi
cd "$work" || exit 1

settings=(--device cpu --threads 1 --precision fp64 --layers 2 --hidden 64 --heads 4 --seq 32 --vocab 250 --data tokens --val-data tokens
    --global-batch 8 --steps 5 --lr 1e-2 --min-lr 1e-3 --warmup 2 --beta1 0.9 --beta2 0.95 --eps 1e-8 --weight-decay 0.1 --clip 0.5 --dropout 0
    --init imported --log warn)

run() { "$@" >log 2>&1 || { echo "not ok imported_model_trains_as_in_pytorch $*: $(grep E_ log | head -1)"; exit 1; }; }
run "$python" "$reference" make .
run "$trivium" checkpoint import --from hf model.safetensors --to imported
run "$trivium" train "${settings[@]}" --metrics serial.jsonl
run "$trivium" launch -n 8 train "${settings[@]}" --dp 2 --tp 2 --pp 2 --metrics layout.jsonl --save saved
mkdir trained
run "$trivium" checkpoint export saved --to hf trained/model.safetensors
run "$trivium" checkpoint export saved --to llmc trained.bin
"$python" "$reference" check . || echo "not ok exported_files the comparison ended with code $?"
