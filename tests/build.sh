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

# A value of the Makefile's, with the settings of the words. What make says to the same words is kept.
value() { # NAME WORDS...
    local name=$1 said
    shift
    said=$work/said.${*//\//_}
    [ -e "$said" ] || env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CUDA -u SIMT -u GENCODE PATH="$work/bin:$PATH" \
        make -pn BUILD_NAME="$work/build" NVCC="$work/toolkit/bin/nvcc" "$@" help >"$said" 2>/dev/null
    sed -n "s/^$name :*= *//p" "$said" | head -1
}
is() { # NAME FOUND WANTED
    if [ "$2" = "$3" ]; then echo "ok $1"; else echo "not ok $1: \"$2\", not \"$3\""; fi
}

is build_without_a_gpu_leaves_cuda_out "$(value WITH_CUDA GPU=)" ""
is build_with_a_gpu_takes_cuda_in "$(value WITH_CUDA GPU=/dev/nvidia0)" 1
is build_without_nvcc_leaves_cuda_out "$(value WITH_CUDA GPU=/dev/nvidia0 NVCC=)" ""
is build_of_cuda_can_be_asked_for "$(value WITH_CUDA GPU= CUDA=1)" 1
is build_compiles_for_the_gpus_here "$(value KERNEL_FLAGS GPU=/dev/nvidia0 | grep -o 'code=[a-z0-9_]*' | tr '\n' ' ')" \
    "code=sm_80 code=sm_90 "
is build_without_a_gpu_compiles_for_all "$(value KERNEL_FLAGS GPU= CUDA=1 | grep -o 'code=[a-z0-9_]*' | tr '\n' ' ')" \
    "code=sm_80 code=sm_90 code=compute_90 "
said=$(env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u CUDA make -n BUILD_NAME="$work/build" GPU= \
    NVCC="$work/toolkit/bin/nvcc" demo 2>&1)
is build_says_that_the_toolkit_is_left_unused "$(grep -c '^There is a CUDA toolkit but no GPU' <<<"$said")" 1

# ARCH=any: levels, the lowest for all that is not hot; on aarch64 there are none. Only hot sources may contract a*b+c.
printf '#!/bin/sh\necho aarch64-linux-gnu\n' >"$work/bin/arm-cc" && chmod +x "$work/bin/arm-cc"
flags() { grep -oE -- '-march=[^ ]*|-ffp-contract=[a-z]*' | tr '\n' ' '; }
if [ "$(uname -m)" = x86_64 ]; then
    is build_for_any_has_levels "$(value LEVELS ARCH=any)" "x86-64-v2 x86-64-v3 x86-64-v4 x86-64-v4-bf16 x86-64-v4-amx"
    is build_for_any_is_for_the_lowest_where_not_hot "$(value ALL_CFLAGS ARCH=any | flags)" \
        "-march=x86-64-v2 -ffp-contract=off "
    is build_for_a_level_is_for_it_alone "$(value LEVELS ARCH=x86-64-v3)$(value ALL_CFLAGS ARCH=x86-64-v3 | flags)" \
        "-march=x86-64-v3 -ffp-contract=off "

    # tools/levels: a caller jumps to the chosen level, a level to itself; what can be written, or differs, is refused
    mkdir -p "$work/low" "$work/high"
    level() { for l in low high; do ${CC:-cc} -DLEVEL=${#l} -DIN_$l -x c -c -o "$work/$l/f.o" - <<<"$1"; done; }
    levels() { tools/levels "$work/levels.o" 'low high' "$work/low/f.o" "$work/high/f.o" 2>&1; }
    cat >"$work/main.c" <<'END'
#include <stdio.h>
#include <string.h>
extern const struct { const char *name; void *const *functions; size_t bytes; void *const *tables; } levels[];
extern const struct { void *to; size_t bytes; } level_tables[];
extern void *level_slots[];
extern const int table;
int two_calls(void);
int main(void) {
    for (int l = 0; levels[l].name; l++) {
        memcpy(level_slots, levels[l].functions, levels[l].bytes);
        memcpy(level_tables[0].to, levels[l].tables[0], level_tables[0].bytes);
        printf("%s %d %d ", levels[l].name, two_calls(), table);
    }
    return 0;
}
END
    level 'int one(void) { return LEVEL; } int two_calls(void) { return one() + 10; } const int table = LEVEL;'
    levels && ${CC:-cc} -o "$work/main" "$work/main.c" "$work/levels.o"
    is build_of_levels_jumps_to_the_chosen_one "$("$work/main")" "low 13 3 high 14 4 "
    level 'int one(void) { return LEVEL; } int count = LEVEL;'
    is build_of_levels_refuses_what_can_be_written \
        "$(levels)" "tools/levels: hot sources share what can be written: count; give it to another source"
    level $'int one(void) { return LEVEL; }\n#ifdef IN_high\nint more(void) { return 1; }\n#endif'
    is build_of_levels_refuses_what_one_has_alone "$(levels)" "tools/levels: high and low differ in: more - f"
fi
# A source that asks what vectors the processor has is compiled for each level
is build_of_what_asks_for_vectors_is_hot \
    "$(value LIB_C | tr ' ' '\n' |
    xargs grep -lE 'ATTENTION_DOTS|VECTOR_(BYTES|REG)|__(AVX|AMX|FMA|SSE)|immintrin|ops/vector\.h')" ""
is build_for_any_has_no_levels_on_aarch64 "$(value LEVELS ARCH=any CC=arm-cc)$(value ALL_CFLAGS ARCH=any CC=arm-cc |
    flags)" "-march=armv8-a -ffp-contract=off "

# What sees TRIVIUM_CUDA, in itself or in a header, is compiled with the build's own flags; all else is shared, whatever
# those are.
asks=" $(grep -rlw --include='*.[ch]' TRIVIUM_CUDA . | sed 's|^\./||' | tr '\n' ' ') "
find "${BUILD:-build}/obj" -name '*.d' -exec awk -v asks="$asks" -v folder="${BUILD:-build}/obj/" '
    FNR == 1 { c = $1; sub(folder, "", c); sub(/(\.(fp64|fp32|bf16|fp16))?\.o:$/, ".c", c); shared = 1 }
    { for (i = 1; i <= NF && shared; i++) if (index(asks, " " $i " ")) { print c; shared = 0 } }' {} + |
        sort -u >"$work/seeing"
# those that are still there
unlisted=$(value SEES_CUDA CUDA=0 | tr ' ' '\n' | grep -vxFf - "$work/seeing" | xargs -r ls 2>/dev/null)
is build_shares_no_object_that_sees_cuda "$(grep -cx lib/ops/gelu.c "$work/seeing") $unlisted" "1 "
