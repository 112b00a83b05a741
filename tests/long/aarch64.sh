#!/bin/bash
# aarch64 (containers on Macs, Grace) without such a machine: program and tests are cross-compiled, without MPI, and the
# unit tests of one rank run under qemu-user, which is 10 to 30 times as slow. Tests that start further processes are
# left out: qemu-user runs one. Then ARCH=any's choice of a level on x86-64 processors that qemu-user emulates: Nehalem
# has x86-64-v2, Haswell x86-64-v3; and Core 2 less.
#
#   TESTS_OF="lib/ops/ dp/" tests/long/aarch64.sh     the tests of these folders alone
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
name=${NAME:-build}
arm=$name-aarch64 any=$name-any
if ! command -v apt-get >/dev/null || ! said=$(tools/install-deps arm64 2>&1); then
    echo "skip aarch64: its compiler, libraries and qemu-user are not here ($(tail -1 <<<"${said-}"))"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=(CC=aarch64-linux-gnu-gcc ARCH=any MPI=0 CUDA=0 URING= SENTENCEPIECE= NVTX= BUILD_NAME="$arm")
if env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig \
    make -j"$(nproc)" "${settings[@]}" TESTS_OF="${TESTS_OF-}" "$arm/trivium" "$arm/trivium-tests" \
    >"$work/log" 2>&1; then
    echo "ok aarch64_builds"
else
    echo "not ok aarch64_builds: $(grep -m1 -E 'error|No rule' "$work/log")"
    exit 1
fi
# qemu says this of each new thread's unknown signals and system calls
quiet() { grep -vE '^qemu: |^Unsupported (ioctl|syscall)'; }
printf '#!/bin/sh\nexec qemu-aarch64 %s/trivium-tests "$@"\n' "$arm" >"$arm/under-qemu"
chmod +x "$arm/under-qemu"
skipped='launch/ lib/comm/direct/ lib/base/test_replace.c'
BUILD=$arm TESTS=under-qemu TEST_RANKS=1 TEST_PARTS=units TEST_LIMIT=3000 TEST_NOT=$skipped tests/run \
    >"$work/units" 2>&1
grep -E 'FAILED|not ok' "$work/units" | sed 's/^/not ok aarch64 /'
echo "$([ "$(grep -cE 'FAILED|not ok' "$work/units")" = 0 ] && echo ok ||
    echo not ok) aarch64_units_of_one_rank: $(tail -1 "$work/units")"

[ -x "$any/trivium" ] || exit 0
of() { # EMULATED WORDS...
    local processor=$1
    shift
    GOMP_SPINCOUNT=1000 timeout 120 env "$@" qemu-x86_64 -cpu "$processor" "$any/trivium" train --steps 1 \
        --layers 1 --hidden 32 \
        --heads 2 --seq 16 --global-batch 2 --metrics '' 2>&1 | quiet |
        grep -oE '^processor: [^,]*|^step 1/1|E_CONFIG.*' | paste -sd ' '
}
is() { if [[ $2 == $3 ]]; then echo "ok any_on_$1"; else echo "not ok any_on_$1: \"$2\", not \"$3\""; fi; }
is nehalem "$(of Nehalem)" 'processor: x86-64-v2 step 1/1'
is haswell "$(of Haswell)" 'processor: x86-64-v3 step 1/1'
is haswell_asked_for_avx512 "$(of Haswell TRIVIUM_CPU=x86-64-v4)" \
    '*this processor has x86-64-v2, x86-64-v3; use one of them'
is core_2 "$(of core2duo)" '*less than x86-64-v2*'
