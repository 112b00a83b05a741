#!/bin/bash
# calibrate on a GPU: the file can be read back, a plan is made by it, and a profile's predictions are sums of what it
# says. On the emulated device seconds mean nothing, and predictions are of the same device: they are held to a factor
# of ten.
cd "$(dirname "$0")/../.." || exit 1
trivium=$PWD/${BUILD:-build-simt}/trivium
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset OMP_NUM_THREADS # models have one thread, whatever the machine has

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' "$work/out" "$work/err" "$work/this.ini" 2>/dev/null | head -60
}

"$trivium" calibrate --device cuda --widest 64 --out "$work/this.ini" >"$work/out" 2>"$work/err"
code=$?
if [ $code = 0 ] && grep -q "use it with --cluster $work/this.ini" "$work/out" &&
    grep -Eq '^tflops-bf16 = [0-9.e-]*[1-9]' "$work/this.ini" &&
    grep -q '^tflops-fp32 = ' "$work/this.ini" && grep -Eq '^op-gbs = .*layernorm:.*gelu:' "$work/this.ini" &&
    [ "$(grep -c '^# measured' "$work/this.ini")" -ge 9 ] && ! grep -q '^cores' "$work/this.ini"
then echo "ok calibrate_measures_a_gpu"; else not_ok calibrate_measures_a_gpu "code $code, or figures are missing"
exit; fi

"$trivium" plan --cluster "$work/this.ini" --layers 2 --hidden 64 --heads 2 --seq 32 --vocab 256 --global-batch 4 \
    --gpus 1 >"$work/out" 2>"$work/err" &&
    grep -q -- '--precision bf16 --device cuda' "$work/out" && echo "ok plan_reads_what_was_measured" ||
    not_ok plan_reads_what_was_measured "no plan"

# A step that has been profiled, against the same step by the file.
"$trivium" train --device cuda --layers 2 --hidden 64 --heads 2 --seq 32 --global-batch 4 --micro-batch 4 --fuse off \
    --steps 4 --val-fraction 0 --metrics "" \
    --profile --cluster "$work/this.ini" >"$work/out" 2>"$work/err"
if awk '/^ms per step/ { on = 1 } on && /^[a-z]/ && !/^(ms|waiting)/ {
        n++
        for (i = 1; i <= NF; i++) if ($i ~ /%$/) measured += $(i - 1); predicted += $NF }
    END { exit !(n >= 8 && measured > 0 && predicted > measured / 10 && predicted < measured * 10) }' "$work/out"
then echo "ok a_step_is_predicted_by_what_was_measured"; else
    not_ok a_step_is_predicted_by_what_was_measured "far off"; fi

# Two ranks: what they exchange; where there is one GPU, through the host.
comm=$(if [ "${DEVICE-}" = cuda ] && [ "$(nvidia-smi -L | wc -l)" -lt 2 ]; then echo mpi; else echo nccl; fi)
"$trivium" launch -n 2 calibrate --device cuda --comm "$comm" --widest 64 --precision fp32 --out "$work/two.ini" \
    >"$work/out" 2>"$work/err"
if grep -q '^node-curve = .*262144:' "$work/two.ini" && ! grep -q 'No link was measured' "$work/two.ini" &&
    grep -q ', 15 exchanges;' "$work/out"
then echo "ok calibrate_measures_links_$comm"; else not_ok calibrate_measures_links_$comm "no links"; fi

said=$("$trivium" calibrate --device cuda --precision fp64 2>&1)
if [ $? = 2 ] && grep -q 'E_CONFIG.*bf16, fp16 or fp32; use --precision bf16' <<<"$said"; then
    echo "ok calibrate_of_a_gpu_in_fp64_is_refused"
else echo "not ok calibrate_of_a_gpu_in_fp64_is_refused: $said"; fi
