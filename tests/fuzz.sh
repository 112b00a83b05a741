#!/bin/bash
# Every fuzz target (tests/fuzz) on its corpus and on some thousand mutations of it, the same ones each time; no fuzzer is needed.
#
# Run from the project's root. BUILD: where the programs are (default: build; made by make -f tests/fuzz/Makefile replay).
# MUTATIONS: of each target (default: 2000).
set -u -o pipefail
build=${BUILD:-build}/fuzz
for target in tests/fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    if text=$("$build/replay-${name#fuzz_}" "${MUTATIONS:-2000}" "$build/failed-${name#fuzz_}" "tests/fuzz/corpus/${name#fuzz_}" 2>&1); then
        echo "ok $name"
    else
        echo "not ok $name"
        sed 's/^/#   /' <<<"$text"
    fi
done
