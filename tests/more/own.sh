#!/bin/bash
# Script tests that start ranks, on the direct transport instead of MPI (TRIVIUM_COMM_TRANSPORT=direct is
# --comm-transport direct): the same lines, exit codes and bytes are wanted of both. Where a test hurts mpirun, it hurts
# the agent here (starter, tests/processes.bash).
#
# Run from the project's root. BUILD: where the program is (default: build). ON_OWN: which (default: restart, as make
# check has others on it); all: every one that there is, and of signals.sh every case (tests/again).
set -u -o pipefail
export TRIVIUM_COMM_TRANSPORT=direct
log=$(mktemp)
trap 'rm -f "$log"' EXIT

scripts() {
    if [ "${ON_OWN-}" != all ]; then for name in ${ON_OWN:-restart}; do echo "tests/$name.sh"; done; return; fi
    # these are on it anyway
    grep -lE 'trivium"? launch|-- launch|start -n' tests/*.sh tests/more/*.sh |
        grep -vxE 'tests/(elastic|stress)\.sh|tests/more/(own|chaos|stress_sanitized)\.sh'
}
for script in $(scripts); do
    env ${ON_OWN:+ALL=1} bash "$script" >"$log" 2>&1 </dev/null
    code=$?
    sed -nE 's/^(ok|not ok|skip) /\1 own_/p; /^#/p' "$log"
    if ! grep -qE '^(ok|not ok|skip) ' "$log" || { [ $code != 0 ] && ! grep -q '^not ok ' "$log"; }; then
        echo "not ok own_$(basename "$script" .sh): ended with code $code"
        tail -n 5 "$log" | sed 's/^/#   /'
    fi
done
