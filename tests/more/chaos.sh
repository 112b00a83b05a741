#!/bin/bash
# Elastic jobs whose ranks are killed, stopped and slowed at random (launch --chaos): tests/chaos_runs.py. Or one of
# these, as tests/again calls them:
#   SEEDS="5 11"        a run of each seed on emulated GPUs (docs/simt.md), with NCCL and through the host. BUILD: the
#                       first part of where the program is (default: build, for build-simt)
#   ON=hosts            jobs on several hosts, whose agents and ranks are killed and stopped: tests/chaos_hosts.py
#   STRANGERS=all       a job on several hosts among strangers without its secret: tests/strangers.py; or the names of
#                       cases
#
# Run from the project's root. BUILD: where the program is (default: build). RUNS, SEED: how many, from which seed on.
# ON: cpu, cuda or hosts.
set -u -o pipefail
B=${BUILD:-build}
if [ "${SEEDS-}" ]; then
    for seed in $SEEDS; do SEEDS='' BUILD=$B-simt SEED=$seed RUNS=1 ON=cuda bash "$0"; done
    exit
fi
# in memory: a disk may stand still for longer than is waited here
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -r /proc/self/environ ]; then
    echo "skip chaos: without /proc ranks and hosts cannot be found"
    exit 0
fi
if [ "${ON-}" = hosts ]; then python3 tests/chaos_hosts.py "$B" "$work" "${SEED:-1}" "${RUNS:-6}"
elif [ "${STRANGERS-}" ]; then
    # shellcheck disable=SC2086 # several
    python3 tests/strangers.py "$B" "$work" ${STRANGERS#all}
else python3 tests/chaos_runs.py "$B" "$work" "${SEED:-1}" "${RUNS:-4}" "${ON:-cpu}"; fi
