#!/bin/bash
# What the Makefile decides by itself: the CUDA device is built where a GPU is visible, for that GPU's architecture, and
# one line says when a toolkit is left unused. Nothing is compiled. Run from the project's root.
set -u -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/toolkit/bin" "$work/toolkit/include"
printf '#!/bin/sh\nexit 0\n' >"$work/toolkit/bin/nvcc"
printf '#!/bin/sh\nprintf "9.0\\n8.0\\n9.0\\n"\n' >"$work/bin/nvidia-smi"
touch "$work/toolkit/include/cuda_runtime.h"
chmod +x "$work/bin/nvidia-smi" "$work/toolkit/bin/nvcc"

# A value of the Makefile's, with the settings of the words; what it says besides is in $work/said.
value() { # NAME WORDS...
    local name=$1
    shift
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CUDA -u SIMT -u GENCODE PATH="$work/bin:$PATH" \
        make -pn BUILD_NAME="$work/build" NVCC="$work/toolkit/bin/nvcc" "$@" help 2>"$work/errors" | tee "$work/said" |
        sed -n "s/^$name :*= *//p" | head -1
}
is() { # NAME FOUND WANTED
    if [ "$2" = "$3" ]; then echo "ok $1"; else echo "not ok $1: \"$2\", not \"$3\""; fi
}

is build_without_a_gpu_leaves_cuda_out "$(value WITH_CUDA GPU=)" ""
is build_with_a_gpu_takes_cuda_in "$(value WITH_CUDA GPU=/dev/nvidia0)" 1
is build_without_nvcc_leaves_cuda_out "$(value WITH_CUDA GPU=/dev/nvidia0 NVCC=)" ""
is build_of_cuda_can_be_asked_for "$(value WITH_CUDA GPU= CUDA=1)" 1
is build_compiles_for_the_gpus_here "$(value KERNEL_FLAGS GPU=/dev/nvidia0 | grep -o 'code=[a-z0-9_]*' | tr '\n' ' ')" "code=sm_80 code=sm_90 "
is build_without_a_gpu_compiles_for_all "$(value KERNEL_FLAGS GPU= CUDA=1 | grep -o 'code=[a-z0-9_]*' | tr '\n' ' ')" \
    "code=sm_80 code=sm_90 code=compute_90 "
said=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CUDA make -n BUILD_NAME="$work/build" GPU= NVCC="$work/toolkit/bin/nvcc" demo 2>&1)
is build_says_that_the_toolkit_is_left_unused "$(grep -c '^There is a CUDA toolkit but no GPU' <<<"$said")" 1

# What sees TRIVIUM_CUDA, in itself or in a header, is compiled with the build's own flags; all else is shared, whatever those are.
asks=" $(grep -rlw --include='*.[ch]' TRIVIUM_CUDA . | sed 's|^\./||' | tr '\n' ' ') "
find "${BUILD:-build}/obj" -name '*.d' -exec awk -v asks="$asks" -v folder="${BUILD:-build}/obj/" '
    FNR == 1 { c = $1; sub(folder, "", c); sub(/(\.(fp64|fp32|bf16|fp16))?\.o:$/, ".c", c); shared = 1 }
    { for (i = 1; i <= NF && shared; i++) if (index(asks, " " $i " ")) { print c; shared = 0 } }' {} + | sort -u >"$work/seeing"
unlisted=$(value SEES_CUDA CUDA=0 | tr ' ' '\n' | grep -vxFf - "$work/seeing" | xargs -r ls 2>/dev/null)     # those that are still there
is build_shares_no_object_that_sees_cuda "$(grep -cx lib/ops/gelu.c "$work/seeing") $unlisted" "1 "
