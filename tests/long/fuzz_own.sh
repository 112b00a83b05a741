#!/bin/bash
# What comes on a connection of the direct transport, made by libFuzzer: ten million greetings (fuzz_network.c), ten
# million streams of messages (fuzz_messages.c) and a million sealed streams (fuzz_sealed.c), side by side.
# docs/fuzzing.md has what it found.
#
# Run from the project's root. BUILD: where the fuzzers go (default: build). RUNS: of greetings and of messages
# (default: 10000000); sealed: a tenth.
set -u -o pipefail
build=${BUILD:-build}
runs=${RUNS:-10000000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! echo 'int main(void){return 0;}' | clang -fsanitize=fuzzer-no-link -x c -c -o "$work/a" - 2>/dev/null; then
    echo "skip fuzz_own: without clang and its sanitizers"
    exit 0
fi
if ! B=$build make -j2 -f tests/fuzz/Makefile "$build/fuzz/fuzz-network" "$build/fuzz/fuzz-messages" \
    "$build/fuzz/fuzz-sealed" >"$work/out" 2>&1; then
    echo "not ok fuzz_own: it does not build"
    tail -5 "$work/out" | sed 's/^/#   /'
    exit 1
fi
fuzz() { # TARGET RUNS
    FUZZ_SECONDS=3400 RUNS=$2 TARGET=$1 BUILD=$build tests/fuzz/run >"$work/$1" 2>&1
    local code=$? runs=$2 done_runs
    done_runs=$(awk -v name="$1" '$1 == name { print $2 }' "$work/$1")
    if [ $code = 0 ] && [ "${done_runs:-0}" -ge "$runs" ]; then
        echo "ok fuzz_$1 ($(grep "^$1 " "$work/$1" | tr -s ' '))"
    else echo "not ok fuzz_$1: code $code, ${done_runs:-0} of $runs executions"; sed 's/^/#   /' "$work/$1"; fi
}
fuzz network "$runs" &
fuzz messages "$runs" &
fuzz sealed $((runs / 10)) &
wait
