#!/bin/bash
# trivium data, from outside: text becomes tokens and comes back, files of tokens are what other programs take them for
# (a Megatron reader and writer of their own, in Python), and bad requests are one line. Then a few training steps on
# such files.
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
trivium=$build/trivium
bpe=$PWD/tests/data/bpe
demo=$PWD/configs/demo.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export ASAN_OPTIONS=${ASAN_OPTIONS-detect_leaks=0} LC_ALL=C

run() { "$trivium" "$@" >out 2>err; }

not_ok() { # NAME WHY
    echo "not ok $1: $2"
    sed 's/^/#   /' out err
}

# says NAME TEXT... -- ARGUMENTS...: succeeds, and each text is somewhere in the output
says() {
    local name=$1 texts=()
    shift
    while [ "$1" != -- ]; do
        texts+=("$1")
        shift
    done
    shift
    run "$@" || { not_ok "$name" "exit code $?"; return; }
    for text in "${texts[@]}"; do
        grep -qF -- "$text" out || { not_ok "$name" "does not say: $text"; return; }
    done
    echo "ok $name"
}

# refuses NAME EXIT CODE TEXT ARGUMENTS...: one line with that code and text
refuses() {
    local name=$1 exit_code=$2 code=$3 text=$4
    shift 4
    run "$@"
    local got=$?
    if [ $got != "$exit_code" ]; then not_ok "$name" "exit code $got"
    elif [ "$(wc -l <err)" != 1 ]; then not_ok "$name" "not one line"
    elif ! grep -q -- "^\(\[.*\] \)\?$code .*$text" err; then not_ok "$name" "does not say $code ... $text"
    else echo "ok $name"; fi
}

same() { # NAME FILE FILE
    if cmp "$2" "$3" >err 2>&1; then echo "ok $1"; else not_ok "$1" "they differ"; fi
}

# What another program makes of a token file: reads llm.c's or Megatron's, without a word of ours, and writes the bytes
# that the tokens stand for. Arguments: FILE VOCAB.json
cat >decode.py <<'END'
import json, struct, sys
path, vocab = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
data = open(path, "rb").read()
if data[:4] in (struct.pack("<i", 20240520), struct.pack("<i", 20240801)):
    magic, version, n = struct.unpack_from("<3i", data)
    size, letter = {20240520: (2, "H"), 20240801: (4, "I")}[magic]
    assert version == {2: 1, 4: 7}[size] and len(data) == 1024 + n * size and not any(data[12:1024])
    documents = [list(struct.unpack_from(f"<{n}{letter}", data, 1024))]
else:
    index = open(path[:-4] + ".idx", "rb").read()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, s, d = struct.unpack_from("<QBQQ", index, 9)
    size, letter = {4: (4, "i"), 8: (2, "H")}[code]
    lengths = struct.unpack_from(f"<{s}i", index, 34)
    pointers = struct.unpack_from(f"<{s}q", index, 34 + 4 * s)
    ends = struct.unpack_from(f"<{d}q", index, 34 + 12 * s)
    assert version == 1 and len(index) == 34 + 12 * s + 8 * d and ends[0] == 0 and ends[-1] == s \
        and list(ends) == sorted(ends)
    assert sum(lengths) * size == len(data)
    sequences = [list(struct.unpack_from(f"<{n}{letter}", data, p)) for n, p in zip(lengths, pointers)]
    documents = [sum(sequences[a:b], []) for a, b in zip(ends, ends[1:])]
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
byte_of = {chr(b): b for b in plain}
byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)})
piece = {i: bytes(byte_of[c] for c in token) for token, i in vocab.items()}
sys.stdout.buffer.write(b"".join(piece[t] for document in documents for t in document))
print(len(documents), file=sys.stderr)
END
decodes() { # NAME FILE TEXT DOCUMENTS
    command -v python3 >/dev/null || { echo "skip $1 there is no python3"; return; }
    python3 decode.py "$2" "$bpe/vocab.json" >decoded 2>err || { not_ok "$1" "the other reader refuses it"; return; }
    : >out
    if ! cmp -s decoded "$3"; then not_ok "$1" "it stands for another text"
    elif [ "$(cat err)" != "$4" ]; then not_ok "$1" "not $4 documents"
    else echo "ok $1"; fi
}

# ---- tokenize ----
printf 'It'\''s  caf\xc3\xa9\t<|endoftext|>\n \xff\xfe end  ' >odd.txt
says tokenize_writes_llmc 'vocabulary 512' '19 tokens of 35 bytes' '2 documents' -- data tokenize odd.txt \
    --tokenizer "$bpe" --to odd.bin
decodes llmc_stands_for_the_same_bytes odd.bin odd.txt 1
says tokenize_writes_megatron '2 documents' -- data tokenize odd.txt --vocab "$bpe/vocab.json" \
    --merges "$bpe/merges.txt" --to meg.idx
decodes megatron_stands_for_the_same_bytes meg.bin odd.txt 2
says megatron_by_option '1 document' -- data tokenize "$demo" --tokenizer "$bpe" --to demo-meg --format megatron
decodes the_demo_text_comes_back demo-meg.bin "$demo" 1
says bytes_without_a_tokenizer 'vocabulary 256' '(1.00 bytes a token)' -- data tokenize "$demo" --to bytes.bin
printf 'one ' >a.txt
printf 'two' >b.txt
says several_inputs '2 documents' -- data tokenize b.txt a.txt --tokenizer "$bpe" --end-of-text --to two.bin \
    --format megatron
printf 'one <|endoftext|>two<|endoftext|>' >two.txt
decodes inputs_come_by_name_and_end two.bin two.txt 2

# an empty file among others has no part in it, and this is said
: >empty.txt
warned() { # NAME ARGUMENTS...: succeeds, and one warning says that a file is empty
    local name=$1
    shift
    run "$@" || { not_ok "$name" "exit code $?"; return; }
    if [ "$(grep -c 'empty, and passed over' err)" = 1 ]; then
        echo "ok $name"
    else
        not_ok "$name" "does not warn once"
    fi
}
warned an_empty_input_is_passed_over data tokenize a.txt empty.txt b.txt --to some.bin
printf 'one two' >some.txt
"$trivium" data inspect some.bin --tokens 9 2>/dev/null | grep -q 'first tokens:  111 110 101 32 116 119 111$' &&
    echo "ok the_others_are_all_there" || not_ok the_others_are_all_there "other tokens"
warned training_passes_over_it_too train --device cpu --threads 1 --layers 1 --hidden 16 --heads 2 --seq 16 \
    --global-batch 4 --steps 1 --metrics "" --data "empty.txt,$demo"
refuses all_inputs_empty 2 E_DATA 'is empty' data tokenize empty.txt --to x.bin

# ---- inspect ----
says inspect_llmc 'llm.c, u16 tokens' 'tokens:        19' 'ends of text:  1' 'first text:    "It' \
    -- data inspect odd.bin --tokenizer "$bpe"
says inspect_megatron 'Megatron, u16 tokens' 'documents:     2, in 2 sequences' -- data inspect meg.bin
says inspect_text 'text, one token a byte' 'largest token: 255' 'first tokens:  73 116' \
    -- data inspect odd.txt --tokens 2
says inspect_text_tokenized 'text, tokenized' 'vocab 512' -- data inspect odd.txt --tokenizer "$bpe"

# ---- a file of Megatron's kind, written by another program, in an order of its own ----
if command -v python3 >/dev/null; then
    python3 - <<'END'
import struct
open("other.bin", "wb").write(struct.pack("<6i", 7, 8, 9, 1, 2, 3))
open("other.idx", "wb").write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 2, 3) + struct.pack("<2i", 3, 3)
                              + struct.pack("<2q", 12, 0) + struct.pack("<3q", 0, 1, 2))
END
    says another_writers_megatron 'i32 tokens' 'first tokens:  1 2 3 7 8 9' -- data inspect other.bin
else
    echo "skip another_writers_megatron there is no python3"
fi

# ---- refusals: one line, and nothing is written ----
refuses unknown_command 2 E_USAGE 'data tokenise' data tokenise x
refuses no_input 2 E_USAGE 'needs a file' data tokenize --to x.bin
refuses no_output 2 E_USAGE '--to OUT.bin' data tokenize a.txt
refuses vocab_without_merges 2 E_USAGE 'belong together' data tokenize a.txt --vocab "$bpe/vocab.json" --to x.bin
refuses missing_input 2 E_DATA 'nowhere.txt' data tokenize nowhere.txt --to x.bin
refuses missing_tokenizer 2 E_DATA 'nowhere/vocab.json' data tokenize a.txt --tokenizer nowhere --to x.bin
refuses tokens_are_no_text 2 E_CONFIG 'tokens already' data tokenize odd.bin --tokenizer "$bpe" --to x.bin
refuses end_of_text_needs_a_token 2 E_CONFIG 'no <|endoftext|>' data tokenize a.txt --end-of-text --to x.bin
refuses an_input_is_not_overwritten 2 E_USAGE 'overwritten' data tokenize a.txt b.txt --to b.txt
refuses unwritable_output 1 E_IO 'No such file' data tokenize a.txt --to nowhere/x.bin
echo '{"a": 0' >vocab.json
cp "$bpe/merges.txt" .
refuses malformed_vocabulary 2 E_FORMAT 'not JSON' data tokenize a.txt --tokenizer . --to x.bin
head -c 33 meg.idx >cut.idx
cp meg.bin cut.bin
refuses truncated_index 2 E_FORMAT 'cut.idx is truncated' data inspect cut.bin
if [ -z "$(ls x.bin* nowhere 2>/dev/null)" ]; then
    echo "ok refusals_write_nothing"
else
    not_ok refusals_write_nothing "$(ls)"
fi

# ---- training: the same tokens from text, llm.c and Megatron give the same losses ----
train() { # NAME METRICS ARGUMENTS...
    local name=$1 metrics=$2
    shift 2
    run train --device cpu --threads 1 --layers 1 --hidden 16 --heads 2 --seq 16 --global-batch 4 --steps 3 --log warn \
        --metrics "$metrics" "$@" ||
        { not_ok "$name" "exit code $?"; return 1; }
    grep -o '"loss": *[^,]*' "$metrics" >"$metrics.loss"
}
run data tokenize "$demo" --tokenizer "$bpe" --to demo.bin
if train training_on_text t --data "$demo" --tokenizer "$bpe" && train training_on_llmc l --data demo.bin --vocab 512 &&
    train training_on_megatron m --data demo-meg.bin --vocab 512; then
    [ "$(wc -l <t.loss)" -ge 3 ] || not_ok losses "there are none"
    same llmc_trains_as_text_does t.loss l.loss
    same megatron_trains_as_text_does t.loss m.loss
fi
refuses tokenizer_and_tokens 2 E_CONFIG 'leave --tokenizer out' train --device cpu --data demo.bin --tokenizer "$bpe" \
    --vocab 512 --metrics ""
