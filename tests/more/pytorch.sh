#!/bin/bash
# The scripts of docs/pytorch, each held against this project's run of the same layout: losses, norms and bytes. Then
# again with a mistake planted in each, which has to be noticed.
#
# Run from the project's root. BUILD: where the program is (default: build). PYTHON: one with torch and safetensors
# (default: that of tools/oracle/venv.py, if it is there). ONLY=NAME: that script alone.
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1

python=
for candidate in ${PYTHON-$root/build-bench-venv/bin/python python3}; do
    if "$candidate" -c 'import safetensors, torch' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "skip pytorch no Python with torch and safetensors here (python3 tools/oracle/venv.py makes one)"
    exit 0
fi
cd "$work" || exit 1

sizes=(--layers 2 --hidden 32 --heads 4 --seq 16 --log warn)
record() { # FOLDER RANKS OPTIONS...
    "$trivium" launch -n "$2" oracle record --out "$1" "${sizes[@]}" --steps 4 "${@:3}" >log 2>&1 ||
        echo "not ok pytorch $1: $(grep E_ log | head -1)"
}
mixtral=(--arch mixtral --experts 4 --kv-heads 2 --ffn 32 --tie off)
record ref 1
[[ experts != *"${ONLY-}"* ]] || record mixtral 1 "${mixtral[@]}"

# mirror NAME RANKS BOUND OPTIONS...: docs/pytorch/NAME.py, and the options that say the same here
mirror() {
    case $1 in *"${ONLY-}"*) record "$1" "$2" "${@:4}" && echo "$1|$2|$3" >>rows ;; esac
}
mirror dp 2 1e-10 --dp 2
mirror zero1 2 1e-10 --dp 2 --zero 1
mirror zero2 2 1e-10 --dp 2 --zero 2 --micro-batch 2
mirror zero3 2 1e-10 --dp 2 --zero 3
mirror tp 2 1e-10 --tp 2
mirror sp 2 1e-10 --tp 2 --sp
mirror pp 2 1e-10 --pp 2 --micro-batch 2
mirror recompute 1 1e-10 --recompute full
mirror ring 2 1e-10 --cp 2
mirror ulysses 2 1e-10 --cp 2 --cp-by ulysses
mirror local 2 1e-10 --dp 2 --local-steps 2 --outer-lr 0.7 --outer-momentum 0.9
mirror experts 2 1e-10 "${mixtral[@]}" --dp 2 --ep 2
# The gradients of keys' biases are zero but for rounding, so that 64 of 34176 signs are chance. One moves the mean of
# a part by 1e-4.
mirror sign 2 1e-3 --dp 2 --precision fp32 --grad-codec sign
# What fp16 rounds in another order; the scales are the same.
if [[ scaling == *"${ONLY-}"* ]]; then
    half=(--precision fp16 --loss-scale-init 524288 --loss-scale-window 3 --loss-scale-hysteresis 1)
    "$trivium" oracle record --out scaled "${sizes[@]}" --steps 10 --depth scalars >log 2>&1
    "$trivium" train "${sizes[@]}" --dropout 0 --steps 10 --global-batch 8 --warmup 2 --clip 0.5 "${half[@]}" \
        --metrics scaling.jsonl >log 2>&1 &&
        echo "scaling|1|1e-4" >>rows
fi
compare() { "$python" "$root/tests/pytorch_mirrors.py" "$1" "$root/tools/oracle" "$work" <rows; }   # SCRIPTS
compare "$root/docs/pytorch"

# ---- mistakes, one for each script ----
cp -r "$root/docs/pytorch" planted
plant() { # NAME SED: the expression must change the file
    sed -i "$2" "planted/$1.py"
    ! cmp -s "planted/$1.py" "$root/docs/pytorch/$1.py" ||
        echo "not ok pytorch_mistake_in_$1 the expression changes nothing"
}
plant dp 's|loss_of(\(.*\)) / n  .*|loss_of(\1)|'                       # a sum for a mean
plant zero1 's|all_sum(squares(shards.values()))|squares(shards.values())|'  # each clips by its own shard's norm
plant zero2 's|/ len(tokens)|/ len(x)|'                                  # microbatches count in full
# whole weights stay: the numbers are right, the bytes are not
plant zero3 's|return (name, x.size(), x.stride()) if name else x|return x|'
plant tp 's|g(logits.gather|(logits.gather|'                             # the target's logit on its own rank alone
plant sp 's|^            x.grad = total.view_as(x)|            pass|'     # norms' gradients of own positions
plant pp 's|dist.all_reduce(w.*tie)|pass|'                                      # the tied gradient is not summed
plant recompute 's|use_reentrant=False)|use_reentrant=False) * 1.0001|'
plant ring 's|rank - hop)|rank)|'                                        # every block is taken for the own one
plant ulysses 's|HEADS, POSITIONS = 1, 2|HEADS, POSITIONS = 2, 1|'        # the wrong axes
plant local 's|RATE \* (went / n + MOMENTUM \* momentum\[name\])|RATE * momentum[name]|'    # no look ahead
plant experts 's|to.cumsum(1) - 1|to.cumsum(1)|'                         # a place is lost
plant sign 's|- decode(code, len(part))|- part|'                         # no residual
plant scaling 's|done += bool(norm.isfinite())|done += 1|'               # a skipped step advances the rate
compare planted >planted.out 2>/dev/null
while IFS='|' read -r name _; do
    if grep -q "^not ok pytorch_$name" planted.out; then echo "ok pytorch_a_mistake_in_${name}_is_noticed"
    else echo "not ok pytorch_a_mistake_in_${name}_is_noticed"; fi
done <rows
