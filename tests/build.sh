#!/bin/bash
# What the Makefile decides by itself: the CUDA device is built where a GPU is to be seen, for that GPU's architecture, and one line
# says when a toolkit is left unused. Nothing is compiled. Run from the project's root.
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
