#!/bin/bash
# A run that goes on, goes on with what it was trained on: data, split, tokenizer, masks. Others are refused, or said
# with --other-data.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
bpe=$PWD/tests/data/bpe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
head -c 6000 "$PWD/configs/demo.txt" >"$work/x.txt"
cd "$work" || exit 1
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0} LC_ALL=C

train() {
    "$trivium" train --device cpu --threads 1 --layers 2 --hidden 16 --heads 2 --seq 16 --global-batch 4 --log warn \
        --metrics "" \
        --lr 1e-3 --min-lr 1e-4 --warmup 0 --beta2 0.95 "$@" >out 2>&1
}
not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' out
}
# quiet NAME ARGUMENTS...: goes on without a word
quiet() {
    local name=$1
    shift
    if ! train --steps 3 --resume "$@"; then not_ok "$name" "refused"
    elif [ -s out ]; then not_ok "$name" "it says something"
    else echo "ok $name"; fi
}
# refused NAME TEXT ARGUMENTS...: E_DATA with this text and the remedy, which works and says the same
refused() {
    local name=$1 text=$2
    shift 2
    if train --steps 3 --resume "$@"; then not_ok "$name" "it goes on"
    elif [ "$(wc -l <out)" != 1 ] || ! grep -q "E_DATA .*$text.*--other-data" out; then
        not_ok "$name" "does not say E_DATA ... $text"
    elif ! train --steps 3 --resume "$@" --other-data; then not_ok "$name" "refused with --other-data"
    elif ! grep -q "warning: .*$text" out; then not_ok "$name" "does not warn: $text"
    else echo "ok $name"; fi
}
# said NAME TEXT ARGUMENTS...: goes on, with this warning
said() {
    local name=$1 text=$2
    shift 2
    if ! train --steps 3 --resume "$@"; then not_ok "$name" "refused"
    elif [ "$(wc -l <out)" != 1 ] || ! grep -q "warning: .*$text" out; then not_ok "$name" "does not warn: $text"
    else echo "ok $name"; fi
}

head -c 5999 x.txt >shorter.txt
{ head -c 5999 x.txt; printf '~'; } >end.txt
"$trivium" data tokenize x.txt --to x.bin >out 2>&1
train --data x.txt --steps 2 --save ck || not_ok trains "exit code $?"
quiet resume_with_the_same_data ck --data x.txt
quiet resume_with_the_same_tokens_in_another_file ck --data x.bin --vocab 256
refused resume_with_other_data '6000 .*there, and 5999 .*here' ck --data shorter.txt
refused resume_with_data_of_the_same_length 'other tokens' ck --data end.txt
refused resume_with_another_split '5400 from 0 on there, and 4500 from 0 on here' ck --data x.txt --val-fraction 0.25
refused resume_with_validation_of_another_file '5400 from 0 on there, and 6000' ck --data x.txt --val-data end.txt
said resume_with_other_settings 'beta2 0.9 (was 0.95)' ck --data x.txt --beta2 0.9
said resume_with_another_rate 'lr 0.01 (was 0.001)' ck --data x.txt --lr 0.01
moved=(--data x.txt --optimizer muon --fp8 on)
train "${moved[@]}" --dropout 0.1 --steps 2 --save moved || not_ok trains "exit code $?"
quiet resume_with_the_same_numbers moved "${moved[@]}" --dropout 0.1
said resume_with_other_numbers 'dropout 0.0 (was 0.1), muon-momentum 0.8 (was 0.95), muon-adjust "original" (was ' \
    moved "${moved[@]}" --muon-momentum 0.8 --muon-adjust original
said resume_without_fp8 'fp8 "off" (was "on")' moved "${moved[@]:0:4}" --dropout 0.1
train --data x.txt --steps 1 --other-data && grep -q 'other-data has no part' out &&
    echo "ok other_data_belongs_to_resume" || not_ok other_data_belongs_to_resume "no word"

train --data x.txt --val-data shorter.txt --steps 2 --save val || not_ok trains "exit code $?"
said resume_with_other_validation 'evaluated on other data' val --data x.txt --val-data end.txt
quiet resume_without_validation val --data x.txt --val-fraction 0

# two tokenizers of one size: two tokens have changed their numbers
mkdir other
cp "$bpe/merges.txt" other
sed 's/"a": *\([0-9]*\)/"a": @\1/; s/"e": *\([0-9]*\)/"e": #\1/' "$bpe/vocab.json" >half
a=$(grep -o '"a": @[0-9]*' half | tr -dc 0-9) e=$(grep -o '"e": #[0-9]*' half | tr -dc 0-9)
sed "s/@$a/$e/; s/#$e/$a/" half >other/vocab.json
train --data x.txt --tokenizer "$bpe" --steps 2 --save tokens || not_ok trains "exit code $?"
refused resume_with_another_tokenizer 'other tokens' tokens --data x.txt --tokenizer other

train --arch bert --data x.txt --vocab 300 --mask-token 299 --steps 2 --save bert || not_ok trains "exit code $?"
quiet resume_with_the_same_masks bert --arch bert --data x.txt --vocab 300 --mask-token 299
refused resume_with_other_masks 'mask-token 298 (was 299)' bert --arch bert --data x.txt --vocab 300 --mask-token 298

# A manifest of version 1 has neither data nor a checksum.
if command -v python3 >/dev/null; then
    python3 - <<'END'
import json
path = "ck/" + open("ck/latest").read().strip() + "/manifest.json"
manifest = json.load(open(path))
manifest["version"] = 1
del manifest["data"], manifest["xxh3"]
json.dump(manifest, open(path, "w"))
END
    said resume_of_an_older_version 'does not say what it was trained on' ck --data end.txt
else
    echo "skip resume_of_an_older_version there is no python3"
fi
