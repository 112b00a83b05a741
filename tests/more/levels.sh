#!/bin/bash
# make ARCH=any: each level computes, to the bit, what a program for it alone does. Five steps of GPT in fp32 and bf16,
# of Llama in fp16, and of a DLRM: every number of the metrics, and the checkpoint's bytes. An unknown level is refused,
# and one that the processor lacks.
#
# A program for one level is linked here from that level's own objects, as they were compiled, with no jumps; that
# for AVX2 is also make's, for which all sources are compiled. 25 CPU-seconds; make's ARCH=any before it takes 270.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
name=${NAME:-build}
any=$name-any
if [ "$(uname -m)" != x86_64 ] || [ ! -x "$any/trivium" ]; then
    echo "skip levels: no x86-64, or no $any/trivium (make check-more builds it)"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
setting() { sed -n "s/^$1=//p" "$any/settings"; }
is() { if [ "$2" = "$3" ]; then echo "ok levels_$1"; else echo "not ok levels_$1: \"$2\", not \"$3\""; fi; }

said=$(TRIVIUM_CPU=x86-64-v5 "$any/trivium" show mesh 2>&1)
is refuse_an_unknown_one "$? $(grep -c 'E_USAGE.*TRIVIUM_CPU=x86-64-v5 is no level; use one of x86-64-v2, x86' \
    <<<"$said")" "2 1"
said=$(TRIVIUM_CPU=x86-64-v2 "$BUILD/trivium" show mesh 2>&1)
is of_a_build_for_one_processor_are_not_chosen "$? $(grep -c 'E_CONFIG.*TRIVIUM_CPU=x86-64-v2.*make ARCH=any' \
    <<<"$said")" "2 1"
if said=$(TRIVIUM_CPU=x86-64-v4-amx "$any/trivium" show mesh 2>&1); then
    echo "skip levels_refuse_one_that_the_processor_lacks: this one has all"
else is refuse_one_that_the_processor_lacks "$(grep -c 'E_CONFIG.*this processor has x86-64-v2' <<<"$said")" 1; fi

has() { TRIVIUM_CPU=$1 "$any/trivium" show mesh >/dev/null 2>&1; }
link_alone() { # LEVEL
    local level=$1 objects=() c e cc
    read -r -a cc <<<"$(setting CC)"
    for c in $(setting HOT_C); do objects+=("$any/obj/$level/${c%.c}.o"); done
    for c in $(find lib/ops -name '*_cpu.c'); do
        for e in $(setting ELEMS); do objects+=("$any/obj/$level/${c%.c}.$e.o"); done
    done
    "${cc[@]}" -std=gnu17 -I. -DTRIVIUM_ARCH="\"$level\"" -c -o "$work/level.o" lib/base/level.c || return
    # shellcheck disable=SC2046 # words
    "${cc[@]}" -o "$work/$level" "$any/obj/trivium.o" $(setting LIB_O | tr ' ' '\n' |
        grep -vE '/(levels|lib/base/level)\.o$') \
        "$work/level.o" "${objects[@]}" $(setting LIBS)
}

# Two ranks with unlike levels
if command -v mpirun >/dev/null; then
    said=$(GOMP_SPINCOUNT=1000 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 1 \
        "$any/trivium" train --dp 2 --steps 1 \
        : -n 1 -x TRIVIUM_CPU=x86-64-v2 "$any/trivium" train --dp 2 --steps 1 2>&1)
    is of_ranks_are_one "$(grep -c 'E_CONFIG.*rank computes with x86-64-v2 and rank 0 with .*set TRIVIUM_CPU' \
        <<<"$said")" 1
fi

export OMP_NUM_THREADS=2
small=(--layers 2 --hidden 64 --heads 4 --seq 64 --global-batch 8 --clip 1)
declare -A models=([gpt_fp32]="${small[*]} --precision fp32" [gpt_bf16]="${small[*]} --precision bf16"
    [llama_fp16]="${small[*]} --arch llama --precision fp16 --loss-scale 128"
    [dlrm]="--arch dlrm --data $work/clicks.bin --hidden 8 --mlp-bottom 16 --mlp-top 16-8 --global-batch 64")
"$any/trivium" data synth-clicks --to "$work/clicks.bin" --samples 640 --rows 50 --features 4 --bag 3 \
    --dense 5 >/dev/null
# The numbers of five steps that are not times, and the hash of what was saved
bits() { # PROGRAM MODEL
    rm -rf "$work/saved" "$work/metrics.jsonl"
    # shellcheck disable=SC2086 # words
    "$1" train ${models[$2]} --steps 5 --log warn --save "$work/saved" --metrics "$work/metrics.jsonl" \
        >"$work/log" 2>&1 ||
        { echo "failed: $(grep -m1 E_ "$work/log")"; return; }
    python3 - "$work/metrics.jsonl" <<'END'
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
print(*([s[k] for k in ("loss", "grad_norm")] for s in steps if "loss" in s))
END
    find "$work/saved" -name '*.safetensors' | sort | xargs cat | sha256sum
}

for level in ${ONLY:-x86-64-v2 x86-64-v3 x86-64-v4 x86-64-v4-bf16 x86-64-v4-amx}; do
    if ! has "$level"; then echo "skip levels_$level: this processor has less"; continue; fi
    if ! said=$(link_alone "$level" 2>&1); then
        echo "not ok levels_$level is not linked: $(tail -1 <<<"$said")"; continue
    fi
    programs=("$work/$level")
    if [ "$level" = x86-64-v3 ] && [ -x "$name-v3/trivium" ]; then programs+=("$name-v3/trivium"); fi
    for model in "${!models[@]}"; do
        chosen=$(TRIVIUM_CPU=$level bits "$any/trivium" "$model")
        if [[ $chosen == failed* ]]; then echo "not ok levels_${level}_$model $chosen"; continue; fi
        for program in "${programs[@]}"; do
            is "${level}_${model}_equals_that_of_${program//*\//}" "$chosen" "$(bits "$program" "$model")"
        done
    done
    rm "$work/$level"
done
