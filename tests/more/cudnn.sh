#!/bin/bash
# cuDNN without a GPU: is it built with, wherever it lies; and what does the real library say of the attention graphs
# (lib/ops/attention/attention_graph_cudnn.c, tests/cudnn/plans.c)?
#
# Run from the project's root. CUDA_HOME, CC: as for make. A cuDNN of Python's packages will do. Where there is no
# driver, CUDA's stub of it takes its place: the heuristics load it, and ask it nothing that it would have to know.
set -u -o pipefail
home=${CUDA_HOME:-/usr/local/cuda} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skip cudnn: $*"; exit 0; }

# make asks the compiler, which sees cuDNN among Python's packages too, by CPATH; where there is none, it says so.
mkdir -p "$work/toolkit/include" "$work/packages/include" && touch "$work/packages/include/cudnn.h"
settings() {
    env -u MAKELEVEL -u MAKEFLAGS make -pn CUDA=1 CUDA_HOME="$work/toolkit" CC='gcc -nostdinc' "$@" help \
        >"$work/said" 2>&1
}
with_cudnn() { grep -q '^LIB_O := .*/with-cudnn/lib/ops/attention/attention_graph_cudnn.o' "$work/said" &&
    grep -q '^CUDA_LIBS.* -lcudnn ' "$work/said"; }
misses() { grep -q '^cuDNN is not found.*own kernels' "$work/said"; }
report() { if [ "$1" = 0 ]; then echo "ok build: $2"; else echo "not ok build: $2"; fi; }
CPATH=$work/packages/include settings; with_cudnn && ! misses
report $? "a cuDNN in CPATH is built with"
CPATH='' settings; ! with_cudnn && misses
report $? "a build that finds no cuDNN says so"
CPATH='' settings CUDNN=1; with_cudnn && CPATH='' settings CUDNN=0 && ! with_cudnn && ! misses
report $? "CUDNN=1 insists on it, CUDNN=0 does without"

packages=$(python3 -c 'import sys; print(*[p + "/nvidia" for p in sys.path if p.endswith("-packages")])' 2>/dev/null)
find_file() { # NAME [PATTERN]
    # shellcheck disable=SC2086 # a list of folders
    find "$home/" /usr/include /usr/lib $packages -name "$1" ${2:+-path "$2"} 2>/dev/null | head -1
}
header=$(find_file cudnn.h) library=$(find_file 'libcudnn.so.*')
[ -f "$home/include/cuda_runtime.h" ] || skip "no CUDA toolkit in $home"
[ -n "${header:+$library}" ] || skip "no cuDNN, neither in $home nor in the system nor among Python's packages"
[ -n "$(find_file 'libnvrtc.so.*')" ] || skip "no NVRTC, which compiles cuDNN's kernels"
if ! ldconfig -p | grep -q libcuda.so.1; then
    stub=$(find_file libcuda.so '*stubs*')
    [ -n "$stub" ] || skip "no libcuda.so.1, of a driver or CUDA's stub, without which the heuristics name nothing"
    ln -s "$stub" "$work/libcuda.so.1"
fi

# What asks the GPU is wrapped; what runs plans is left out.
wrapped=$(printf -- '-Wl,--wrap=%s ' cudnnCreate cudnnSetStream attention_graph_build attention_graph_plan)
for builds in '0 1' '1 0' '1 1'; do
    read -r before_hopper hopper <<<"$builds"
    # shellcheck disable=SC2086 # a list of options
    ${CC:-cc} -std=gnu17 -I. -DTRIVIUM_CUDA -DTRIVIUM_CUDNN -DTRIVIUM_BEFORE_HOPPER=$before_hopper \
        -DTRIVIUM_HOPPER=$hopper \
        -isystem "$(dirname "$header")" -isystem "$home/include" -Wall -Wextra -ffunction-sections -Wl,--gc-sections \
        $wrapped -o "$work/plans" tests/cudnn/plans.c lib/ops/attention/attention_c{ores,udnn}.c \
        lib/ops/attention/attention_graph_cudnn.c lib/base/status.c lib/device/dtype.c "$library" -lm ||
        { echo "not ok cudnn: plans.c is not compiled"; exit 1; }
    LD_LIBRARY_PATH=$work:$(dirname "$library"):$home/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout \
        300 "$work/plans"
done
