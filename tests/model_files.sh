#!/bin/bash
# Files of other projects by the program's own commands: what each model has trained is exported, imported and exported
# again, to the same bytes, and what was imported trains. What a format cannot hold is refused. tests/hf.sh compares
# with the other projects' code, where that is.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
demo=$PWD/configs/demo.txt
bpe=$PWD/tests/data/bpe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

sizes=(--device cpu --threads 1 --data "$demo" --val-fraction 0 --layers 2 --hidden 64 --heads 4 --seq 32 \
    --global-batch 4 --steps 2 --log warn --metrics "")
said() { [ -s log ] && grep -m 1 E_ log || tail -1 log; }
must() { "$@" >log 2>&1 || { echo "not ok $name: $(said)"; return 1; }; }

first_loss() { # OPTIONS...: of a run of one step, in $loss
    must "$trivium" train --device cpu --threads 1 --data "$demo" --val-fraction 0 --global-batch 4 --steps 1 \
        --log warn --metrics m.jsonl "$@" || return
    loss=$(sed -n 's/.*"loss":\([^,]*\).*/\1/p' m.jsonl)
    [ -n "$loss" ] || { echo "not ok $name: m.jsonl has no loss"; return 1; }
}
# What import prints, and --init alone, is the model that was exported: it has the same loss.
is_the_same_model() { # NAME OPTIONS...
    local own words experts=()
    name=$1_is_the_model_that_was_exported
    [[ $1 = mixtral || $1 = moe || $1 = gpt_oss* ]] && experts=(--aux-loss 0 --z-loss 0)
    read -ra words <<<"$(sed -n 's/^train with: //p' words)"
    first_loss --layers 2 --hidden 64 --heads 4 --seq 32 "${@:2}" "${experts[@]}" ${experts:+--capacity 0} \
        --init saved || return
    own=$loss
    first_loss "${words[@]}" || return
    [ "$loss" = "$own" ] || { echo "not ok $name: a loss of $loss, and by itself $own, with ${words[*]}"; return; }
    first_loss --init in "${experts[@]}" || return
    [ "$loss" = "$own" ] || { echo "not ok $name: a loss of $loss by --init alone, and by itself $own"; return; }
    echo "ok $name"
}

there_and_back() { # NAME RANKS LAYOUT OPTIONS...
    name=$1_files_come_back
    local to=out/model.safetensors back=again/model.safetensors layout
    read -ra layout <<<"$3"
    mkdir out again
    must "$trivium" launch -n "$2" train "${sizes[@]}" "${layout[@]}" "${@:4}" --save saved || return
    must "$trivium" checkpoint export saved --to hf "$to" || return
    must "$trivium" checkpoint import --from hf "$to" --to in || return
    mv log words
    must "$trivium" checkpoint export in --to hf "$back" || return
    diff -r out again >log || { echo "not ok $name: the second files are not the first: $(head -1 log)"; return; }
    echo "ok $name"
    is_the_same_model "$1" "${@:4}"
}
apart() { mkdir "$1" && (cd "$1" && there_and_back "$@"); }
apart gpt 2 "--tp 2"
apart gpt_with_a_head_and_another_ffn 2 "--tp 2" --tie off --ffn 96 --activation relu
apart llama 2 "--tp 2" --arch llama --tie off --kv-heads 2 --ffn 96
apart llama_of_other_sizes_than_tiny 2 "--tp 2" --arch llama --tie on --kv-heads 0 --ffn 0 --rope-theta 500
apart mixtral 4 "--dp 2 --ep 2 --tp 2" --arch mixtral --tie off --kv-heads 2 --ffn 96 --experts 4
apart moe 4 "--dp 2 --ep 2 --tp 2" --arch moe --tie off --kv-heads 2 --ffn 96 --experts 4 --expert-ffn 40 \
    --expert-layers de --router-norm off --qk-norm head
apart gpt_oss_without_what_tiny_has 2 "--tp 2" --arch gpt_oss --experts 4 --attention-bias none --window 0 \
    --window-layers s
name=gpt_oss_says_a_window_that_no_layer_has
must grep -q '"sliding_window": 32' gpt_oss_without_what_tiny_has/out/config.json && echo "ok $name"
apart bert 2 "--tp 2" --arch bert --ffn 96 --activation relu
apart t5 2 "--tp 2" --arch t5
apart t5_1_1 2 "--tp 2" --arch t5 --tie off --activation geglu --head-dim 12 --ffn 96

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
refused gpt_with_a_head_is_no_gpt2_of_llmc llmc "tie=off.*tie=on" --tie off
refused gpt_of_another_ffn_is_no_llmc llmc "ffn=96.*4 x hidden, 256" --ffn 96

# ---- what a checkpoint says, and what the user does ----
begin() { "$trivium" train --device cpu --threads 1 --data "$demo" --val-fraction 0 --global-batch 4 \
    --steps "${STEPS:-1}" --log warn --metrics "" "$@" >log 2>&1; }
stops() { # NAME CODE WORDS OPTIONS...
    if begin "${@:4}"; then echo "not ok $1: it trains"
    elif grep -q "$2.*$3" log; then echo "ok $1"
    else echo "not ok $1: $(said)"; fi
}
goes() { # NAME OPTIONS...
    if begin "${@:2}"; then echo "ok $1"; else echo "not ok $1: $(said)"; fi
}
stops sizes_that_are_said_stand E_FORMAT "layers is 2 there and 3 here" --init gpt/in --layers 3
stops an_arch_that_is_said_stands E_FORMAT "arch is gpt there and llama here" --init gpt/in --arch llama
stops a_model_that_is_said_stands E_FORMAT "is of another model.* no --model" --init gpt/in \
    --model gpt2-124m --vocab 256
goes tiny_is_no_model_that_is_said --init gpt/in --model tiny
begin --layers 1 --hidden 32 --heads 4 --seq 16 --vocab 300 --save larger
stops bytes_of_a_larger_vocabulary E_CONFIG "vocab=300.*--tokenizer.*--vocab 300" --init larger
goes bytes_of_a_vocabulary_that_is_said --init larger --vocab 300
STEPS=2 goes resume_has_the_sizes_too --resume larger --vocab 300 --save larger
letters() { printf "%0$(($1 / 2))d" 0 | sed "s/0/$2/g"; }
begin --arch moe --hidden 32 --heads 4 --seq 16 --experts 4 --window 4 --window-layers "$(letters 127 sf)s" \
    --expert-layers "$(letters 127 de)e" --expert-ffn 40 --qk-norm head --router-scores sigmoid --router-groups 2 \
    --norm-eps 1.2345678901234567e-06 --rope-scaling yarn-untruncated:1.2345678901234:8:1.12345678:32.123456 \
    --attention-cap 30.123456789012345 --expert-bias on --router-bias on \
    --attention-bias all --attention-sinks on --swiglu-limit 7.1234567890123456 --router-scale 2.5 --save long
STEPS=2 goes all_options_of_a_model_are_resumed --resume long --save long
stops a_longer_option_is_refused E_CONFIG "rope-scaling=linear:2.000.*use fewer digits" --arch llama \
    --rope-scaling "linear:2.$(letters 400 0)"

# What import does not read is called by its name.
stranger() { # NAME WORDS CONFIG
    mkdir -p "$1" && cp gpt/out/model.safetensors "$1" && echo "$3" >"$1/config.json"
    if "$trivium" checkpoint import --from hf "$1" --to "$1-in" >log 2>&1; then echo "not ok $1: it was imported"
    elif grep -q "E_FORMAT.*$2" log; then echo "ok $1"
    else echo "not ok $1: $(said)"; fi
}
stranger another_model_is_called_by_its_name \
    "model_type gemma2; import reads gpt2, llama, mistral, qwen2, qwen3, olmo2, seed_oss,.* mixtral, qwen3_moe,.* t5" \
    '{"model_type": "gemma2"}'
cp -r llama/out nextn && sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' nextn/config.json
name=layers_behind_the_last_are_called_by_their_name
if "$trivium" checkpoint import --from hf nextn --to nextn-in >log 2>&1; then echo "not ok $name: it was imported"
elif grep -q "E_FORMAT.*of layer 1, and num_hidden_layers is 1.*num_nextn_predict_layers" log; then echo "ok $name"
else echo "not ok $name: $(said)"; fi
stranger what_is_no_json_is_no_gpt2 "config.json is not JSON" '{"model_type": "llama", "rope_theta": NaN}'

# ---- what an export says of tokens ----
exports() { "$trivium" checkpoint export "$@" >log 2>&1; }
ids() { grep -o '"[a-z]*_token_id": [^,]*' "$1/config.json" | sort | tr -d '\n'; }
says() { # NAME FOLDER IDS
    if [ "$(ids "$2")" = "$3" ]; then echo "ok $1"; else echo "not ok $1: $(ids "$2") $(said)"; fi
}
begin --layers 1 --hidden 32 --heads 4 --seq 16 --vocab 512 --save of-512
begin --layers 1 --hidden 32 --heads 4 --seq 16 --vocab 50257 --save of-gpt2
begin --arch llama --layers 1 --hidden 32 --heads 4 --seq 16 --save bytes
exports of-512 --to hf with/ --tokenizer "$bpe"
says a_tokenizers_ids with '"bos_token_id": 0"eos_token_id": 0"pad_token_id": null'
if cmp -s with/vocab.json "$bpe/vocab.json" && cmp -s with/merges.txt "$bpe/merges.txt"; then
    echo "ok a_tokenizers_files_go_along"
else echo "not ok a_tokenizers_files_go_along: $(ls with)"; fi
exports of-gpt2 --to hf without/
says ids_of_a_published_vocabulary without '"bos_token_id": 50256"eos_token_id": 50256"pad_token_id": null'
mkdir none && exports bytes --to hf none
says bytes_have_no_special_tokens none '"bos_token_id": null"eos_token_id": null"pad_token_id": null'
mkdir generation && cp "$bpe"/* generation &&
    echo '{"eos_token_id": [7, 8], "pad_token_id": 9}' >generation/generation_config.json
exports of-512 --to hf generated/ --tokenizer generation
tr -d '\n ' <generated/config.json | grep -q '"eos_token_id":\[7,8\]' && echo "ok ids_for_generation" ||
    echo "not ok ids_for_generation: $(ids generated)"
mkdir named && cp "$bpe"/vocab.json "$bpe"/merges.txt named &&
    echo '{"bos_token": null, "eos_token": {"content": "!"}, "pad_token": "<pad>", "added_tokens_decoder": {"300":
        {"content": "<pad>"}}}' >named/tokenizer_config.json
exports of-512 --to hf names/ --tokenizer named
says ids_of_named_tokens names "\"bos_token_id\": null\"eos_token_id\": $(grep -o '"!": *[0-9]*' "$bpe/vocab.json" |
    tr -dc 0-9)\"pad_token_id\": 300"
mkdir whole && echo '{"eos_token": "<|im_end|>"}' >whole/tokenizer_config.json &&
    echo '{"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 511, "content": "<|im_end|>"}]}' >whole/tokenizer.json
exports of-512 --to hf wholes/ --tokenizer whole
says an_id_of_an_added_token wholes '"bos_token_id": null"eos_token_id": 511"pad_token_id": null'
# What a published model says of tokens is kept by import, goes along in training, and comes back.
mkdir -p published && cp with/* published && sed -i 's/"eos_token_id": 0/"eos_token_id": [9, 7]/
    s/"pad_token_id": null/"pad_token_id": -1/' published/config.json
comes_back() { # NAME CHECKPOINT FOLDER
    exports "$2" --to hf "$3/"
    if ! diff <(tr -d '\n ' <published/config.json | grep -o '"eos_token_id":[^]]*') \
        <(tr -d '\n ' <"$3/config.json" | grep -o '"eos_token_id":[^]]*') >diffs; then
        echo "not ok $1: $(said) $(cat diffs)"
    elif ! cmp -s published/vocab.json "$3/vocab.json" || ! cmp -s published/merges.txt "$3/merges.txt"; then
        echo "not ok $1: no tokenizer in $(ls "$3" | tr '\n' ' ')"
    else echo "ok $1"; fi
}
"$trivium" checkpoint import --from hf published --to taken >log 2>&1
comes_back ids_and_a_tokenizer_are_imported taken taken-out
if grep -q '"pad_token_id": null' taken-out/config.json; then echo "ok an_id_that_is_no_token_is_left_out"
else echo "not ok an_id_that_is_no_token_is_left_out: $(said)"; fi
begin --init taken --vocab 512 --save first
comes_back they_go_along_in_training first first-out
STEPS=4 begin --resume first --vocab 512 --save first --save-every 1 --keep 1
comes_back they_go_along_when_steps_are_removed first last-out
begin --layers 1 --hidden 32 --heads 4 --seq 16 --vocab 512 --save fresh
exports fresh --to hf fresh-out/
says another_run_has_no_ids_of_it fresh-out '"bos_token_id": null"eos_token_id": null"pad_token_id": null'

# transformers does not train a Llama's row for padding. It trains a GPT-2's.
padded() { # FOLDER: what import says of its padding
    sed -i 's/"pad_token_id": null/"pad_token_id": 5/' "$1/config.json"
    "$trivium" checkpoint import --from hf "$1" --to "$1-in" 2>&1 | grep -c 'pad_token_id 5: transformers does not'
}
begin --arch llama --layers 1 --hidden 32 --heads 4 --seq 16 --vocab 512 --save llama-pad
exports llama-pad --to hf llama-pad-out/
if [ "$(padded llama-pad-out)$(padded first-out)" = 10 ]; then echo "ok import_says_that_padding_is_trained"
else echo "not ok import_says_that_padding_is_trained: $(said)"; fi

refuses_export() { # NAME WORDS WORDS-OF-EXPORT...
    if exports "${@:3}"; then echo "not ok $1: it was exported"
    elif grep -q "$2" log; then echo "ok $1"
    else echo "not ok $1: $(said)"; fi
}
refuses_export a_tokenizer_of_more_tokens "512 tokens.*vocab=256" bytes --to hf never/ --tokenizer "$bpe"
refuses_export an_added_token_beyond_the_vocabulary "512 tokens.*vocab=256" bytes --to hf never/ --tokenizer whole
refuses_export a_folder_without_a_tokenizer "none of tokenizer.json" bytes --to hf never/ --tokenizer none
refuses_export llmc_has_no_tokenizer "leave it out" of-gpt2 --to llmc never.bin --tokenizer "$bpe"
refuses_export llmc_has_no_usual_name "name one" of-gpt2 --to llmc none
