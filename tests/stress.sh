#!/bin/bash
# Very many collectives on the direct transport, each result compared with a closed form, and memory that does not grow
# (lib/comm/example_many.c): over shared memory, with large messages read where they lie and through the
# rings alone, and over TCP between two emulated hosts.
#
# Run from the project's root. BUILD: where the program is (default: build). N: collectives of each (default: 3000).
# SEED: which (default: 1).
set -u -o pipefail
build=$(cd "${BUILD:-build}" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work # what launch keeps of a failed job goes with it

# What ranks of one host say where they do not read each other's memory; said=1: it has to be said, and nothing else
copied_twice='^large messages are copied twice: '
stress() { # NAME LAUNCH_OPTIONS...
    TRIVIUM_EXE="$build/example_many" "$build/trivium" launch -n 4 --comm-transport direct "${@:2}" \
        "${N:-3000}" "${SEED:-1}" >"$work/out" 2>"$work/err" </dev/null
    local code=$?
    if [ "${said-0}" = 1 ] && [ "$(grep -c "$copied_twice" "$work/err")" != 1 ]; then
        code="$code, and no rank says so"
    fi
    if [ "$code" = 0 ] && ! grep -qv "$copied_twice" "$work/err" &&
        grep -q "^${N:-3000} collectives in" "$work/out"; then
        echo "ok $1 ($(cat "$work/out"))"
    else
        echo "not ok $1: code $code"
        head -5 "$work/err" | sed 's/^/#   /'
    fi
}
stress many_collectives_in_shared_memory
stress many_collectives_over_connections --nodes 2
said=1 TRIVIUM_OWN_COPIES=2 stress many_collectives_in_two_copies
