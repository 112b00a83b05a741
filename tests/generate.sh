#!/bin/bash
# trivium generate, from outside: a small model is trained, saved by four ranks, and speaks; alone and on two ranks it
# says the same.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium
demo=$PWD/configs/demo.txt
bpe=$PWD/tests/data/bpe
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0}

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' out err 2>/dev/null
}

generate() { "$trivium" generate --threads 1 "$@" >out 2>err; }

# refuses NAME CODE TEXT OPTIONS...: one line with that code and text, exit code 2, and not a word on standard output
refuses() {
    local name=$1 code=$2 text=$3 exit_code
    shift 3
    generate "$@"
    exit_code=$?
    if [ $exit_code != 2 ]; then not_ok "$name" "exit code $exit_code"
    elif ! grep -F "$code " err | grep -qF -- "$text"; then not_ok "$name" "does not say $code ... $text"
    elif [ "$(wc -l <err)" != 1 ] || [ -s out ]; then not_ok "$name" "says more than one line"
    else echo "ok $name"
    fi
}

"$trivium" launch -n 4 train --device cpu --threads 1 --data "$demo" --layers 2 --hidden 32 --heads 4 --seq 32 \
    --global-batch 4 --steps 12 --lr 1e-2 \
    --dp 2 --tp 2 --zero 1 --val-fraction 0 --log warn --metrics "" --save saved >out 2>err ||
    { not_ok generate "no model to speak with"; exit 1; }

# A terminal obeys control bytes, and a model may say them; there they are \x1b. Files and pipes get the bytes.
coloured() { # [launch -n RANKS]
    echo "$trivium $* generate --tp ${3-1} --threads 1 --checkpoint saved --tokens 1 --log warn --prompt \$'a\t\e[31m'"
}
control_bytes() { # NAME [LAUNCH...]
    bash -c "$(coloured "${@:2}")" 2>err | head -c 7 | od -c >out
    if ! grep -q 'a  *.t  *033   \[' out; then not_ok "$1" "not the bytes in a pipe"; return; fi
    script -qec "bash -c \"$(coloured "${@:2}")\"" typescript >out 2>err </dev/null
    if grep -q $'\e' out; then not_ok "$1" "ESC on a terminal"
    elif grep -qF $'a\t\\x1b[31m' out; then echo "ok $1"; else not_ok "$1" "another text"; fi
}
if [ -n "$(type -p script)" ]; then
    control_bytes control_bytes_on_a_terminal
    control_bytes control_bytes_of_ranks_on_a_terminal launch -n 2
else echo "skip control_bytes_on_a_terminal, control_bytes_of_ranks_on_a_terminal: there is no program 'script'"; fi

words=(--checkpoint saved --prompt "To be" --tokens 20 --top-k 20)
if ! generate "${words[@]}" --seed 7; then not_ok generate_alone "exit code $?"
elif [ "$(wc -c <out)" != 26 ] || [ "$(head -c 5 out)" != "To be" ]; then
    not_ok generate_alone "not the prompt, 20 bytes and an end of line"
elif ! grep -qE '^prompt 5 tokens in [0-9.]+ s, generated 20 tokens, [0-9.]+ tok/s, cache 0.02 MiB$' err; then
    not_ok generate_alone "no statistics"
else echo "ok generate_alone"
fi
cp out alone

if ! "$trivium" launch -n 2 generate --threads 1 --tp 2 "${words[@]}" --seed 7 >out 2>err; then
    not_ok generate_on_two_ranks "exit code $?"
elif ! cmp -s out alone; then not_ok generate_on_two_ranks "says something else than one rank"
elif ! grep -q 'cache 0.01 MiB per rank' err; then not_ok generate_on_two_ranks "does not have half of the cache"
else echo "ok generate_on_two_ranks"
fi

if ! generate "${words[@]}" --seed 8; then not_ok generate_another_seed "exit code $?"
elif cmp -s out alone; then not_ok generate_another_seed "the same text"
else echo "ok generate_another_seed"
fi

# 84 111 32 98 101 is "To be"
if ! generate --checkpoint saved --prompt-tokens 84,111,32,98,101 --tokens 20 --top-k 20 --seed 7; then
    not_ok generate_from_numbers "exit code $?"
elif ! cmp -s out alone; then not_ok generate_from_numbers "says something else than the same prompt as text"
else echo "ok generate_from_numbers"
fi

if ! generate --checkpoint saved/step-00000012 --prompt x --temperature 0 --precision bf16 --layers 2; then
    not_ok generate_until_seq_is_full "exit code $?"
elif [ "$(wc -c <out)" != 33 ]; then not_ok generate_until_seq_is_full "not 32 bytes and an end of line"
else echo "ok generate_until_seq_is_full"
fi

# a model of a tokenizer's tokens: the numbers of the prompt's tokens say the same as the prompt
"$trivium" train --device cpu --threads 1 --data "$demo" --tokenizer "$bpe" --layers 1 --hidden 32 --heads 4 --seq 32 \
    --global-batch 4 --steps 2 --val-fraction 0 \
    --log warn --metrics "" --save pieces >out 2>err || not_ok generate_by_tokenizer "no model"
numbers=$(printf 'all the people' >prompt && "$trivium" data tokenize prompt --tokenizer "$bpe" --to prompt.bin \
    >/dev/null 2>err && tail -c +1025 prompt.bin | od -An -v -tu2 | xargs | tr ' ' ,)
if ! generate --checkpoint pieces --tokenizer "$bpe" --prompt "all the people" --tokens 9 --temperature 0; then
    not_ok generate_by_tokenizer "exit code $?"
elif [ "$(head -c 14 out)" != "all the people" ]; then not_ok generate_by_tokenizer "does not begin with the prompt"
elif cp out pieces.out && ! generate --checkpoint pieces --tokenizer "$bpe" --prompt-tokens "$numbers" --tokens 9 \
    --temperature 0; then not_ok generate_by_tokenizer "$numbers: exit code $?"
elif ! cmp -s out pieces.out; then not_ok generate_by_tokenizer "says something else than the same prompt as numbers"
else echo "ok generate_by_tokenizer"
fi
refuses prompt_without_its_tokenizer E_CONFIG "--tokenizer" --checkpoint pieces --prompt x
refuses tokenizer_of_a_larger_vocabulary E_CONFIG "512 tokens, and the model vocab=256" --checkpoint saved \
    --tokenizer "$bpe" --prompt x

# after the training program, the one that is run: a token, a cache of half of the heads, and no loss
"$trivium" show program --decode --layers 1 --tp 2 >all 2>err && sed -n '/^after decode/,$p' all >out
if ! grep -qE 'attention_cached +h0.qkv \| h0.cache +-> h0.att +fp32 \(B 1, T 1/64@0, H 2/4@0, D 32\)' out; then
    not_ok show_decode "no attention over a cache"
elif grep -q cross_entropy out || ! grep -q '^schedule: F0$' out; then not_ok show_decode "more than a forward pass"
else echo "ok show_decode"
fi

# A table of positions says how long a text may be; where there is none, --seq does, whatever it was trained with.
"$trivium" train --device cpu --threads 1 --data "$demo" --arch llama --layers 1 --hidden 32 --heads 4 --seq 16 \
    --global-batch 4 --steps 1 --val-fraction 0 \
    --log warn --metrics "" --save rotary >out 2>err || not_ok another_seq "no model to speak with"
if ! generate --checkpoint rotary --prompt "To be" --tokens 40 --seq 48; then
    not_ok longer_than_it_was_trained_with "exit code $?"
elif [ "$(wc -c <out)" != 46 ]; then
    not_ok longer_than_it_was_trained_with "not the prompt, 40 bytes and an end of line"
else echo "ok longer_than_it_was_trained_with"; fi
if ! generate --checkpoint saved --prompt "To be" --temperature 0 --seq 16; then
    not_ok shorter_than_its_table "exit code $?"
elif ! grep -q "positions 0 to 15 of 32 are taken" err; then
    not_ok shorter_than_its_table "does not say which positions are taken"
elif ! generate --checkpoint saved --prompt "To be" --temperature 0 --tokens 11; then
    not_ok shorter_than_its_table "exit code $?"
else cp out whole
    generate --checkpoint saved --prompt "To be" --temperature 0 --seq 16
    if cmp -s out whole; then echo "ok shorter_than_its_table"; else not_ok shorter_than_its_table "another text"; fi
fi
refuses longer_than_its_table E_FORMAT "use --seq 32 or less" --checkpoint saved --prompt x --seq 33
refuses too_many_tokens_for_this_seq E_CONFIG "or give a larger --seq" --checkpoint rotary --prompt x --tokens 16

refuses no_checkpoint E_USAGE "--checkpoint DIR" --prompt x
refuses checkpoint_that_is_not_there E_DATA nowhere --checkpoint nowhere --prompt x
refuses no_prompt E_USAGE "one of --prompt" --checkpoint saved
refuses two_prompts E_USAGE "one of --prompt" --checkpoint saved --prompt x --prompt-tokens 1
refuses prompt_that_is_no_list E_USAGE "prompt-tokens" --checkpoint saved --prompt-tokens 1,,2
refuses prompt_with_no_token E_CONFIG "256 is not in the vocabulary" --checkpoint saved --prompt-tokens 256
refuses another_size E_FORMAT "layers is 2 there and 3 here" --checkpoint saved --prompt x --layers 3
refuses too_many_tokens E_CONFIG "seq=32" --checkpoint saved --prompt x --tokens 32
refuses too_long_a_prompt E_CONFIG "shorten the prompt" --checkpoint saved --prompt "$(printf '%032d' 0)"
refuses ranks_that_are_not_there E_CONFIG "give --tp 1" --checkpoint saved --prompt x --tp 2
refuses training_options E_USAGE "lr" --checkpoint saved --prompt x --lr 1
refuses cuda E_CONFIG "use device cpu" --checkpoint saved --prompt x --device cuda
