#!/bin/bash
# The CPU's row kernels work on whole vectors, for AVX2, for AVX-512 and for the CPU at hand: the inner loops of their
# objects are looked at with objdump (tests/vector_loops.py) and compared with a table (tests/vector.txt). A loop that
# the compiler gave up on, or sums that found no registers, change no number: no other test would notice.
set -u
cd "$(dirname "$0")/../.." || exit 1

if [ "$(uname -m)" != x86_64 ] || ! command -v objdump >/dev/null; then
    echo "skip vectors: no objdump, or no x86-64"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

archs=(x86-64-v3 x86-64-v4)
if grep -qw avx2 /proc/cpuinfo; then archs+=(native); fi
mapfile -t objects \
    < <(awk '!/^#/ && NF { n = split($2, e, ",")
        for (i = 1; i <= n; i++) print $1 (e[i] == "-" ? "" : "." e[i]) ".o" }' \
    tests/vector.txt | sort -u)
failed=0
for arch in "${archs[@]}"; do
    at=$folder/$arch/obj/lib
    if make -s -j2 CUDA=0 ARCH="$arch" BUILD_NAME="$folder/$arch" "${objects[@]/#/$at/}" >"$folder/log" 2>&1; then
        python3 tests/vector_loops.py "$at" "$arch" tests/vector.txt || failed=1
    else
        echo "not ok vectors for $arch: do not compile: $(grep -m1 error "$folder/log")"
        failed=1
    fi
done
exit $failed
