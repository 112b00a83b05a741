#!/bin/bash
# Small or sparse files that would cost memory, or time, or be waited for: each is refused in a line, or read in a time
# that grows as the file does. Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
trivium=$(readlink -f "${BUILD:-build}/trivium")
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
memory=2000000 # KiB of addresses; a run of nothing reserves 1 GB of them

# bomb NAME CODE WORDS... -- ARGUMENTS: ends within 5 s and within the memory with this code, and with all words in one
# line of E_
bomb() {
    local name=$1 code=$2 is word words=()
    shift 2
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    (ulimit -v $memory && timeout -k 1 5 "$trivium" "${@:2}") >out 2>err </dev/null
    is=$?
    for word in "${words[@]}"; do
        grep -E E_ err | grep -qF -- "$word" ||
            { echo "not ok bomb_$name does not say \"$word\": $(tail -2 err | cut -c1-300)" && return; }
    done
    if [ $is != "$code" ]; then echo "not ok bomb_$name code $is: $(tail -2 err | cut -c1-300)"; return; fi
    echo "ok bomb_$name"
}
instead() { # FILE COMMAND...: the file is another one while the command runs
    mv "$1" kept
    [ -p other ] || [ -f other ] || return 1
    mv other "$1"
    "${@:2}"
    rm "$1" && mv kept "$1"
}
brackets() { python3 -c "print('{\"a\":['+','.join(['{}']*$1)+']}')" >other; }
fifo() { mkfifo other; }

# ---- files to spoil ----
model=(--layers 1 --hidden 16 --heads 2 --seq 8 --vocab 256 --global-batch 2 --log quiet)
{
    head -c 4000 "$demo" >text.txt
    "$trivium" train --data text.txt "${model[@]}" --steps 1 --val-fraction 0 --metrics '' --save ck &&
        mkdir hf hfi bpe &&
        "$trivium" checkpoint export ck --to hf hf/model.safetensors && cp hf/* hfi && rm hfi/model.safetensors &&
        echo '{"weight_map": {}}' >hfi/model.safetensors.index.json && echo '{}' >bpe/vocab.json &&
        echo '#version: 0.2' >bpe/merges.txt &&
        "$trivium" oracle record --out ref --data text.txt "${model[@]}" --steps 1 &&
        "$trivium" launch -n 2 --comm-transport direct oracle record --out run --data text.txt "${model[@]}" --steps 1 \
        --dp 2 --precision fp32
} >out 2>err || { echo "not ok bombs: the files to spoil $(tail -3 err)" && exit 1; }

# ---- JSON: a value takes 80 bytes of memory and three of text ----
import=(checkpoint import --to new --from hf)
brackets 1500000 && instead hf/config.json bomb config 2 config.json "4500008 bytes" "the limit is 4194304" \
    -- "${import[@]}" hf/model.safetensors
brackets 6000000 && instead hfi/model.safetensors.index.json bomb index 2 index.json bytes "the limit is 16777216" \
    -- "${import[@]}" hfi
brackets 2500000 && instead run/recording.json bomb recording 2 recording.json "5000001 values" "the limit is 4194304" \
    -- oracle show run
brackets 2500000 && instead ref/scale-fp32.json bomb scale 2 scale-fp32.json values "the limit is 4194304" \
    -- oracle check run ref
brackets 1300000 && instead ck/step-00000001/manifest.json bomb manifest 2 manifest.json values "the limit is 262144" \
    -- checkpoint inspect ck
brackets 1300000 && instead bpe/vocab.json bomb vocabulary 2 --tokenizer vocab.json values "the limit is 1048576" \
    -- data tokenize text.txt --tokenizer bpe --to new.bin

# ---- what nothing writes to ----
fifo && instead hf/config.json bomb config_fifo 2 E_DATA "config.json is not a regular file" \
    -- "${import[@]}" hf/model.safetensors
fifo && instead run/recording.json bomb recording_fifo 2 E_DATA "is not a regular file" -- oracle show run
fifo && instead run/collectives-0.jsonl bomb calls_fifo 2 E_DATA "is not a regular file" -- oracle check run ref
fifo && instead hf/model.safetensors bomb model_fifo 2 E_DATA "is not a regular file" \
    -- "${import[@]}" hf/model.safetensors
fifo && instead ck/latest bomb latest_fifo 2 E_DATA "is no checkpoint" -- checkpoint inspect ck
fifo
bomb schedule_fifo 2 E_DATA "schedule=file:other is a pipe" "<(...)" -- schedule --schedule file:other --pp 2 \
    --microbatches 4
bomb hostfile_fifo 2 E_DATA "--hostfile other is a pipe" -- launch -n 2 --comm-transport direct --hostfile other train
bomb order_fifo 2 E_DATA "server-order=other is not a regular file" -- train --data text.txt \
    "${model[@]}" --val-fraction 0 --servers 1 --server-mode async --clip 0 --server-order other --steps 1
bomb criteo_fifo 2 E_DATA "the click logs other is a pipe" -- data criteo other --to new.bin --rows 100
bomb metrics_fifo 2 E_USAGE "metrics=other: it is a pipe that no process reads" -- train --data text.txt \
    "${model[@]}" --steps 1 --val-fraction 0 --metrics other
bomb record_fifo 1 E_IO "server-record=other" "a pipe that no process reads" -- train --data text.txt \
    "${model[@]}" --steps 1 --val-fraction 0 --metrics '' --servers 1 --server-mode async --clip 0 --server-record other
ln -s other link
bomb trace_fifo 1 E_IO "trace=link" "a pipe that no process reads" -- train --data text.txt "${model[@]}" --steps 1 \
    --val-fraction 0 --metrics '' --trace link
bomb svg_fifo 1 E_IO "other" "a pipe that no process reads" -- schedule --pp 2 --microbatches 4 --svg other
bomb config_file_fifo 2 E_DATA "the config file other is a pipe" -- train --config other
rm other

# ---- what has a writer ----
read_whole() { if [ "$2" = 0 ]; then echo "ok bomb_$1_of_a_process"; else
    echo "not ok bomb_$1_of_a_process $(tail -1 err)"; fi; }
printf '0F0, 0F1, 0B0, 0B1\n1F0, 1B0, 1F1, 1B1\n' >table
(sleep 0.1 && cat table) | "$trivium" schedule --schedule file:/dev/stdin --pp 2 --microbatches 2 >out 2>err &&
    "$trivium" schedule --schedule file:<(cat table) --pp 2 --microbatches 2 >out 2>>err
read_whole schedule $?
python3 -c "print('\t'.join(['1'] + ['3'] * 13 + ['%08x' % i for i in range(26)]))" | gzip >day.gz
"$trivium" data criteo <(sleep 0.1 && gzip -dc day.gz) --to clicks.bin --rows 100 >out 2>err &&
    grep -q '1 sample' out err
read_whole criteo $?

# ---- long lines ----
truncate -s 3G other && cp --sparse=always other big
instead run/collectives-0.jsonl bomb calls_line 2 "collectives-0.jsonl, line 1 has more than 1048576 bytes" \
    -- oracle check run ref
bomb criteo_line 2 "big, line 1 has more than 65536 bytes" -- data criteo big --to new.bin --rows 100
bomb schedule_line 2 "file:big, line 1 has more than 1048576 bytes" -- schedule --schedule file:big --pp 2 \
    --microbatches 4
bomb hostfile_line 2 "--hostfile big, line 1 has more than 4096 bytes" -- \
    launch -n 2 --comm-transport direct --hostfile big train
bomb order_line 2 "server-order=big has more than 67108864 bytes" -- train --data text.txt \
    "${model[@]}" --val-fraction 0 --servers 1 --server-mode async --clip 0 --server-order big --steps 1
rm big

# ---- many groups, and a piece that says it is of 2^31 elements ----
python3 - <<'EOF'
import json
call = json.loads(open("run/collectives-0.jsonl").readline())
with open("other", "w") as f:
    for i in range(40000): f.write(json.dumps(dict(call, sequence=i, name=f"g{i}")) + "\n")
EOF
instead run/collectives-0.jsonl bomb many_groups 1 -- oracle check run ref
cp run/step-1/rank-0.safetensors other
python3 - <<'EOF'
import json, struct
b = open("other", "rb").read()
n = struct.unpack("<Q", b[:8])[0]
name = [x for x in json.loads(b[8:8 + n]) if ".grad" in x][0].split("#")[0] + "#0"
place = json.dumps({"first": [0], "of": [2**31 - 1]})
t = json.dumps({"__metadata__": {name: place}, name: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
open("other", "wb").write(struct.pack("<Q", len(t)) + t + b"\0" * 8)
EOF
rm run/step-1/rank-1.safetensors
instead run/step-1/rank-0.safetensors bomb large_piece 2 \
    "its pieces have 2 elements, and say that they are of 2147483647" -- oracle check run ref
python3 -c "open('a.txt', 'w').write('a' * 2_000_000)"
letters='import json
s = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]; o = iter(range(256, 400))
print(json.dumps({chr(b if b in s else next(o)): b for b in range(256)}))'
python3 -c "$letters" >bpe/vocab.json
bomb one_piece 0 -- data tokenize a.txt --tokenizer bpe --to new.bin
