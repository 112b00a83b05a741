#!/bin/bash
# A DLRM against PyTorch: from a checkpoint after one step, tests/dlrm_torch.py goes on with EmbeddingBag's sparse
# gradients, AdamW and a rowwise Adagrad of its own, in fp64; the losses and norms of this program's next steps, on one
# rank and on two, must be the same within 1e-10.
#
# Run from the project's root. BUILD: where the program is (default: build). PYTHON: one with torch and numpy.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
reference=$PWD/tests/dlrm_torch.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=
for candidate in ${PYTHON-python3 /usr/bin/python3}; do
    if "$candidate" -c 'import numpy, torch' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then echo "skip dlrm_trains_as_in_pytorch no Python with torch and numpy here"; exit 0; fi
cd "$work" || exit 1

run() { "$@" >log 2>&1 || { echo "not ok dlrm_trains_as_in_pytorch $*: $(grep E_ log | head -1)"; exit 1; }; }
# The batch is all there is, so that no order of samples matters.
common=(--arch dlrm --data clicks.bin --val-fraction 0 --precision fp64 --hidden 6 --mlp-bottom 7 --mlp-top 9-5 \
    --global-batch 64 --steps 8
    --lr 1e-3 --clip 1 --log warn)
run "$trivium" data synth-clicks --to clicks.bin --samples 64 --rows 20 --features 4 --bag 3 --dense 5
run "$trivium" train "${common[@]}" --save saved --save-every 1 --keep 0 --metrics serial.jsonl
first=saved/step-00000001
run "$trivium" launch -n 2 train "${common[@]}" --resume $first --emb-by table --zero 1 --metrics table.jsonl
run "$trivium" launch -n 2 train "${common[@]}" --resume $first --emb-by row --micro-batch 8 --metrics row.jsonl
for layout in serial table row; do
    if said=$("$python" "$reference" equal clicks.bin $first $layout.jsonl 2>&1); then
        echo "ok dlrm_trains_as_in_pytorch_$layout"
    else echo "not ok dlrm_trains_as_in_pytorch_$layout $(tail -1 <<<"$said")"; fi
done
