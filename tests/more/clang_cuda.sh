#!/bin/bash
# clang reads every CUDA file, as the GPU's compiler and as the host's: a second opinion besides nvcc's, whose host
# compiler is gcc. Nothing is built. In bf16 and fp32, which between them compile every line; any warning fails.
#
# Debian's clang 14 is older than the toolkit, which it does not know. Two shims are all that it misses: a header of
# texture functions that the toolkit no longer has, and the stores of 16 bytes without interpretation (__stwb) that
# clang learned later.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
toolkit=${CUDA_HOME:-${nvcc%/bin/nvcc}}

skip() { echo "skip clang reads the CUDA files: $*"; exit 0; }
command -v clang >/dev/null || skip "no clang here (tools/install-deps more)"
[ -e "$toolkit/include/cuda_runtime.h" ] || skip "no CUDA toolkit in $toolkit"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/include" && : >"$work/include/texture_fetch_functions.h"
echo 'static __device__ inline void __stwb(uint4 *to, uint4 x) { *to = x; }' >"$work/shims.h"

# FILE ELEM: one line of a test, and what clang said
read_file() {
    local file=$1 elem=$2 said
    said=$(clang -x cuda -std=c++17 --cuda-path="$toolkit" --cuda-gpu-arch=sm_86 -fsyntax-only -Wall -Wextra \
        -Wno-unknown-cuda-version \
        -isystem "$work/include" -include "$work/shims.h" -D__CLANG_CUDA_TEXTURE_INTRINSICS_H__ \
        -I. -DTRIVIUM_CUDA -DELEM="$elem" -DELEM_"$elem" "$file" 2>&1) && [ -z "$said" ] &&
        { echo "ok clang reads $file ($elem)"; return; }
    echo "not ok clang reads $file ($elem): $(grep -m1 -E 'error|warning' <<<"$said")"
    head -20 <<<"$said"
}
export -f read_file
export toolkit work

# Those in tests/simt are its tests, written for its own headers.
find . -name '*.cu' -not -path './build*' -not -path './tests/simt/*' | sed 's|^\./||' | sort |
    while read -r file; do
        case $file in *_cuda.cu) echo "$file bf16" && echo "$file fp32" ;; *) echo "$file fp32" ;; esac
    done | xargs -P2 -L1 bash -c 'read_file "$@"' read_file | tee "$work/log"
! grep -q '^not ok' "$work/log"
