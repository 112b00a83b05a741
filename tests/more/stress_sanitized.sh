#!/bin/bash
# The direct transport under sanitizers (tests/stress/Makefile), for a minute each, at the same time: collectives of
# four processes under AddressSanitizer and UBSan, over shared memory and over TCP; and ranks as threads over the same
# rings under ThreadSanitizer, which sees one process only (lib/comm/direct/example_threads.c says what that leaves
# out).
#
# Run from the project's root. BUILD: where the program is (default: build). STRESS_SECONDS: in all, of each sanitizer
# (default: 60).
set -u -o pipefail
build=${BUILD:-build}
seconds=${STRESS_SECONDS:-60}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work # what launch keeps of a failed job goes with it
endless=1000000000

for flag in address thread; do
    if ! echo 'int main(void){return 0;}' | ${CC:-cc} -fsanitize=$flag -x c -o "$work/a" - 2>/dev/null; then
        echo "skip stress_sanitized: the compiler has no -fsanitize=$flag"
        exit 0
    fi
done
if ! B=$build make -j2 -f tests/stress/Makefile >"$work/out" 2>&1; then
    echo "not ok stress_sanitized: it does not build"
    tail -5 "$work/out" | sed 's/^/#   /'
    exit 1
fi

verdict() { # NAME CODE WORDS: of the standard output, which is in $work/NAME
    if [ "$2" = 0 ] && ! grep -qv "^large messages are copied twice" "$work/$1.err" && grep -qE "$3" "$work/$1"; then
        echo "ok $1 ($(tail -n 1 "$work/$1"))"
        return
    fi
    echo "not ok $1: code $2"
    head -60 "$work/$1.err" | sed 's/^/#   /'
}
address() { # NAME LAUNCH_OPTIONS...
    TRIVIUM_EXE="$(pwd)/$build/stress/many" "$build/trivium" launch -n 4 --comm-transport direct "${@:2}" \
        $endless 2 $((seconds / 2)) >"$work/$1" 2>"$work/$1.err" </dev/null
    verdict "$1" $? '^[0-9]{3,} collectives'
}
{
    address stress_under_address_sanitizer
    address stress_over_connections_under_address_sanitizer --nodes 2
} &
"$build/stress/threads" $endless "$seconds" >"$work/stress_under_thread_sanitizer" \
    2>"$work/stress_under_thread_sanitizer.err" </dev/null
verdict stress_under_thread_sanitizer $? ' 0 wrong$'
wait
