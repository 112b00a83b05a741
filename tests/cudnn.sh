#!/bin/bash
# The attention graphs for cuDNN (lib/ops/attention_graph_cudnn.c), asked of the real library without a GPU:
# tests/cudnn/plans.c.
#
# Run from the project's root. CUDA_HOME, CC: as for make. A cuDNN of Python's packages will do. Where there is no
# driver, CUDA's stub of it takes its place: the heuristics load it, and ask it nothing that it would have to know.
set -u -o pipefail
home=${CUDA_HOME:-/usr/local/cuda} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skip cudnn: $*"; exit 0; }

packages=$(python3 -c 'import sys; print(*[p + "/nvidia" for p in sys.path if p.endswith("-packages")])' 2>/dev/null)
find_file() { # NAME [PATTERN]
    # shellcheck disable=SC2086 # a list of folders
    find "$home/" /usr/include /usr/lib $packages -name "$1" ${2:+-path "$2"} 2>/dev/null | head -1
}
header=$(find_file cudnn.h) library=$(find_file 'libcudnn.so.*')
[ -f "$home/include/cuda_runtime.h" ] || skip "no CUDA toolkit in $home"
[ -n "$header" ] && [ -n "$library" ] || skip "no cuDNN, neither in $home nor in the system nor among Python's packages"
[ -n "$(find_file 'libnvrtc.so.*')" ] || skip "no NVRTC, which compiles cuDNN's kernels"
if ! ldconfig -p | grep -q libcuda.so.1; then
    stub=$(find_file libcuda.so '*stubs*')
    [ -n "$stub" ] || skip "no libcuda.so.1, of a driver or CUDA's stub, without which the heuristics name nothing"
    ln -s "$stub" "$work/libcuda.so.1"
fi

${CC:-cc} -std=gnu17 -I. -DTRIVIUM_CUDA -DTRIVIUM_CUDNN -isystem "$(dirname "$header")" -isystem "$home/include" -Wall \
    -Wextra -o "$work/plans" tests/cudnn/plans.c lib/ops/attention_graph_cudnn.c lib/base/status.c "$library" ||
    { echo "not ok cudnn: plans.c is not compiled"; exit 1; }
LD_LIBRARY_PATH=$work:$(dirname "$library"):$home/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 300 "$work/plans"
