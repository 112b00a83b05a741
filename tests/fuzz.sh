#!/bin/bash
# Fuzz targets (tests/fuzz), each on its seeds and on some thousand mutations of them, the same ones each time; no
# fuzzer is needed.
#
# Run from the project's root. BUILD: where the programs are (default: build; made by make -f tests/fuzz/Makefile
# replay). FUZZ: which targets (default: two that compile little: what comes on a connection, and in a file); all
# (tests/again). MUTATIONS: of each target (default: 2000).
set -u -o pipefail
build=${BUILD:-build}/fuzz
names=${FUZZ:-messages safetensors_header}
[ "$names" != all ] || names=$(basename -s .c -a tests/fuzz/fuzz_*.c | sed 's/^fuzz_//')
for name in $names; do
    if text=$("$build/replay-$name" "${MUTATIONS:-2000}" "$build/failed-$name" tests/fuzz/seeds 2>&1); then
        echo "ok fuzz_$name"
    else
        echo "not ok fuzz_$name"
        sed 's/^/#   /' <<<"$text"
    fi
done
