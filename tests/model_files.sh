#!/bin/bash
# Files of other projects by the program's own commands: what each model has trained is exported, imported and exported again, to the same bytes,
# and what was imported trains. What a format cannot hold is refused. tests/hf.sh compares with the other projects' code, where that is.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

sizes=(--device cpu --threads 1 --data "$demo" --val-fraction 0 --layers 2 --hidden 64 --heads 4 --seq 32 --global-batch 4 --steps 2 --log warn --metrics "")
said() { [ -s log ] && grep -m 1 E_ log || tail -1 log; }
must() { "$@" >log 2>&1 || { echo "not ok $name: $(said)"; return 1; }; }

there_and_back() { # NAME RANKS OPTIONS...
    name=$1_files_come_back
    local ranks=$2 to=out/model.safetensors back=again/model.safetensors words
    shift 2
    mkdir out again
    must "$trivium" launch -n "$ranks" train "${sizes[@]}" "$@" --save "$name" || return
    must "$trivium" checkpoint export "$name" --to hf "$to" || return
    must "$trivium" checkpoint import --from hf "$to" --to "$name-in" || return
    read -ra words <<<"$(sed -n 's/^train with: //p' log)"
    must "$trivium" checkpoint export "$name-in" --to hf "$back" || return
    diff -r out again >log || { echo "not ok $name: the second files are not the first: $(head -1 log)"; return; }
    must "$trivium" train "${sizes[@]}" "${words[@]}" || return
    echo "ok $name"
}
for model in "gpt 2 --tp 2" "llama 2 --arch llama --tie off --kv-heads 2 --ffn 96 --tp 2" \
    "mixtral 4 --arch mixtral --tie off --kv-heads 2 --ffn 96 --experts 4 --dp 2 --ep 2 --tp 2" \
    "bert 2 --arch bert --ffn 96 --tp 2"; do
    mkdir "${model%% *}" && cd "${model%% *}" || exit 1
    # shellcheck disable=SC2086 # words
    there_and_back $model
    cd ..
done

refused() { # NAME FORMAT WORDS OPTIONS...
    local name=$1 to=$2 words=$3
    shift 3
    "$trivium" train "${sizes[@]}" "$@" --save "$name" >log 2>&1 || { echo "not ok $name: $(said)"; return; }
    if "$trivium" checkpoint export "$name" --to "$to" out >log 2>&1; then echo "not ok $name: it was exported"
    elif grep -q "E_CONFIG.*$words" log && [ ! -e out ]; then echo "ok $name"
    else echo "not ok $name: $(said)"; fi
}
refused gpt_with_experts_is_no_gpt2 hf "experts=4.*mixtral" --experts 4
refused gpt_with_experts_is_no_llmc llmc "experts=4.*mixtral" --experts 4
refused llama_with_experts_is_mixtral hf "experts=4.*mixtral" --arch llama --tie off --experts 4
refused gpt_with_a_head_is_no_gpt2 hf "tie=off.*tie=on" --tie off
