# tools/gpu-check's benchmark of whole models: Trivium and PyTorch by turns, each at the batch that is fastest for it.
# Sourced.
#
#   tokens/s = batch x seq / mean step, of the runs the median        mfu = tokens/s x (6 N + 12 L C T) / dense peak
#                                                                     (docs/metrics.md)
#
# The batches tried are the three largest of a list that fit by `trivium show memory`: what it plans is what is
# allocated. The vocabulary is 50304, as usual in such comparisons: GPT-2's 50257 and a rest to a multiple of 128. Every
# run is a process of its own, so that neither side holds memory while the other is measured; ratios come from runs that
# took turns. shellcheck shell=bash disable=SC2154

SEQ=1024 VOCAB=50304
RESERVE_MIB=3000 # CUDA context, cuBLASLt's and cuDNN's own memory

sizes_of() { # MODEL: layers hidden heads
    case $1 in 124m) echo 12 768 12 ;; 350m) echo 24 1024 16 ;; 774m) echo 36 1280 20 ;; 1558m) echo 48 1600 25 ;; esac
}
# A file as llm.c writes them, 300000 tokens below VOCAB, the same every time.
tokens_file() {
    local file=$dir/tokens-$VOCAB.bin n=300000 numbers
    if [ ! -s "$file" ]; then
        for numbers in 20240520 1 $n; do
            numbers=$(printf '%08x' "$numbers")
            printf '%b' "\\x${numbers:6:2}\\x${numbers:4:2}\\x${numbers:2:2}\\x${numbers:0:2}"
        done >"$file.new"
        head -c 1012 /dev/zero >>"$file.new"
        printf '%b' \
            "$(awk -v n=$n -v high=$((VOCAB / 256)) \
            'BEGIN { srand(1); for (i = 0; i < n; i++)
                printf "\\x%02x\\x%02x", int(256 * rand()), int(high * rand()) }')" >>"$file.new"
        mv "$file.new" "$file"
    fi
    echo "$file"
}
median() { sort -g | awk '{ x[NR] = $1 } END { if (NR) print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'; }

# ---- Trivium ----
memory_mib() { # BATCH: what is planned
    "$build/trivium" show memory "${shape[@]}" --device cuda --precision bf16 --global-batch "$1" --micro-batch "$1" \
        --json >"$dir/$current.memory" || return 1
    awk -F'": ' '/"total"/ { printf "%d\n", $2 / 1048576 + 1; exit }' "$dir/$current.memory"
}
batches_that_fit() { # MEMORY LIST...: the three largest
    local have=$1 batch need n=0
    shift
    for batch in "$@"; do
        need=$(memory_mib "$batch") || return 1
        [ $((need + RESERVE_MIB)) -le "$have" ] || continue
        echo "$batch"
        n=$((n + 1))
        [ $n -lt 3 ] || return 0
    done
}
# Milliseconds of a step, the mean without the first few (their times add up to the wall clock's; single ones do not say
# much, since the next step is queued inside). The last row of the metrics goes to DIR/STAGE.row.
trivium_ms() { # BATCH STEPS WARM
    "$build/trivium" train "${shape[@]}" --device cuda --precision bf16 --global-batch "$1" --micro-batch "$1" \
        --steps "$2" --lr 1e-4 --data "$(tokens_file)" \
        --val-fraction 0 --metrics "$dir/$current.jsonl" --log warn >&2 || return 1
    tail -1 "$dir/$current.jsonl" >"$dir/$current.row"
    sed -n 's/.*"step_ms":\([^,]*\),.*/\1/p' "$dir/$current.jsonl" | tail -n +$(($3 + 1)) |
        awk '{ sum += $1 } END { if (NR) printf "%.6f\n", sum / NR }'
}
# The batch with most tokens a second, and that rate.
best_batch() { # BATCHES...
    local batch ms
    for batch in "$@"; do
        ms=$(trivium_ms "$batch" 8 3) || continue
        awk -v b="$batch" -v ms="$ms" -v t="$SEQ" 'BEGIN { print b * t / ms * 1000, b }'
    done | sort -g | tail -1
}

# ---- PyTorch ----
torch_rate() { # BATCH: tokens a second; the code is 3 if it does not fit
    local how=() code
    [ "$device" = cuda ] || how=(--device cpu --eager --steps 2 --series 1)
    LD_LIBRARY_PATH=$path_before TORCHINDUCTOR_CACHE_DIR=$dir/inductor timeout 400 "$python" \
        -B tools/bench/gpt_torch.py --layers "$layers" --hidden "$hidden" \
        --heads "$heads" --seq "$SEQ" --vocab "$VOCAB" --batch "$1" "${how[@]}" --json "$dir/$current.torch.json" >&2
    code=$?
    [ $code = 0 ] && number tokens_per_s "$dir/$current.torch.json"
    return $code
}
# Its best batch, of those that Trivium chose from. Compiling takes a minute or more each time, so what is known is kept
# for the next run of the stage (DIR/STAGE.torch-BATCH), and so is the compiled code.
torch_best_batch() { # BATCHES...
    local batch rate known
    for batch in "$@"; do
        known=$dir/$current-$device.torch-$batch
        if [ ! -s "$known" ]; then
            rate=$(torch_rate "$batch")
            case $? in 0) echo "$rate $batch" >"$known" ;; 3) echo "0 $batch" >"$known" ;; esac
        fi
        cat "$known" 2>/dev/null
    done | sort -g | awk '$1 > 0 { best = $2 } END { print best }'
}

# ---- the stage ----
# What is known so far, written after every round: a stage that runs out of time keeps its numbers.
write_result() {
    local ours theirs flops mfu peak
    ours=$(median <"$dir/$current.ours") theirs=$(median <"$dir/$current.theirs")
    flops=$(number flops_per_token "$dir/$current.row")
    # the peak that the program took, from its own row: flops x tokens a second / mfu
    peak=$(awk -v f="$flops" -v t="$(number tokens_per_s "$dir/$current.row")" \
        -v m="$(number mfu "$dir/$current.row")" 'BEGIN { peak = m + 0 > 0 ? f * t / m : 0; printf "%.6g", peak }')
    share() { awk -v t="$1" -v f="$flops" -v p="$peak" \
        'BEGIN { if (p > 0 && t > 0) printf "%.4f", t * f / p; else printf "null" }'; }
    ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN { if (b > 0) printf "%.3f", a / b; else printf "null" }')
    [ "$device" = cuda ] || ratio=null # nothing is compared
    mfu=$(share "$ours")
    printf '{"model": "gpt2-%s", "seq": %d, "vocab": %d, "batch": %d, "batches_tried": %s, "planned_mib": %d,\n '\
'"trivium_tokens_per_s": [%s], "torch_tokens_per_s": [%s], "torch_batch": %s,\n '\
'"trivium_median": %s, "torch_median": %s, "ratio": %s, "mfu": %s, "torch_mfu": %s, '\
'"flops_per_token": %s, "peak_flops": %s}\n' \
        "$model" "$SEQ" "$VOCAB" "$batch" "$(quote "$fitting")" "$planned" "$(paste -sd, "$dir/$current.ours")" \
        "$(paste -sd, "$dir/$current.theirs")" "${torch_batch:-null}" \
        "$ours" "${theirs:-null}" "$ratio" "$mfu" "$(share "${theirs:-0}")" "$flops" "$peak" >"$dir/$current.data.json"
    [ "$device" = cuda ] ||
        { note "batch $batch of $fitting, PyTorch: ${theirs:+ran}${why_not} (tiny, emulated: no times)"; return; }
    note "batch $batch: $(printf %.0f "$ours") tok/s, mfu $(awk -v m="$mfu" \
        'BEGIN { if (m == "null") print "unknown"; else printf "%.1f%%", 100 * m }')$(
        if [ -n "$theirs" ]; then printf '; PyTorch, batch %s: %.0f tok/s; ratio %s' "$torch_batch" "$theirs" \
            "$ratio"; else echo "; no ratio: $why_not"; fi), $round rounds"
}

stage_model() { # 124m ...
    local model=$1 layers hidden heads shape fitting batch planned python='' why_not='' ratio round torch_batch='' \
        rate rounds=${ROUNDS:-3} steps=20 warm=5 list memory
    needs_build
    if [ "$device" = cuda ]; then
        needs_gpu
        read -r layers hidden heads <<<"$(sizes_of "$model")"
        memory=$(gpu_query memory.total) list=(128 96 64 48 32 24 16 12 8 6 4 3 2 1)
    else
        layers=2 hidden=64 heads=2 SEQ=32 VOCAB=512 memory=3020 list=(16 8 4 2 1) rounds=1 steps=4 warm=1
    fi
    shape=(--layers "$layers" --hidden "$hidden" --heads "$heads" --seq "$SEQ" --vocab "$VOCAB")
    fitting=$(batches_that_fit "$memory" "${list[@]}" | xargs)
    [ -z "${BATCH-}" ] || fitting=$BATCH
    [ -n "$fitting" ] || { note "no batch fits into $memory MiB"; exit 1; }
    # shellcheck disable=SC2086 # a list
    if [ -n "${BATCH-}" ]; then batch=$BATCH; else read -r _ batch <<<"$(best_batch $fitting)"; fi
    [ -n "$batch" ] || { note "training failed with each of the batches $fitting: see the log"; exit 1; }
    planned=$(memory_mib "$batch")
    python=$(python_with_torch) || why_not="no PyTorch that sees a GPU"
    : >"$dir/$current.ours"
    : >"$dir/$current.theirs"
    for ((round = 1; round <= rounds; round++)); do
        rate=$(trivium_ms "$batch" $steps $warm) || { note "training failed with batch $batch: see the log"; exit 1; }
        awk -v ms="$rate" -v n=$((batch * SEQ)) 'BEGIN { print n / ms * 1000 }' >>"$dir/$current.ours"
        write_result
        # the first run is a result
        if [ -n "$python" ] && [ -z "$torch_batch" ] && [ -n "${BATCH-}" ]; then torch_batch=$BATCH; fi
        if [ -n "$python" ] && [ -z "$torch_batch" ]; then
            # shellcheck disable=SC2086 # a list
            torch_batch=$(torch_best_batch $fitting)
        fi
        if [ -n "$python" ]; then
            if [ -n "$torch_batch" ] && rate=$(torch_rate "$torch_batch"); then
                echo "$rate" >>"$dir/$current.theirs"
            else
                why_not="PyTorch failed or took too long" python=
            fi
        fi
        write_result
    done
}
