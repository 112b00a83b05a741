/* fp8: linear layers multiply operands of 8 or 4 bits, with delayed scaling or a scale for each block. See fp8.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_fp8;

enum fp8_recipe { FP8_DELAYED, FP8_MXFP8, FP8_MXFP8_E5M2, FP8_MXFP4, FP8_NVFP4 };
enum fp8_block_scale { FP8_SCALE_UP, FP8_SCALE_DOWN };
struct fp8_options {
    int on, recipe;
    int64_t history, margin;             /* steps whose amax counts; a scale leaves room for 2^margin times the amax */
    int block_scale, stochastic;         /* of E8M0 scales; dy in 4 bits is rounded by draws */
    int hadamard;                        /* of x and dy in 4 bits, for dW */
};
static inline struct fp8_options *fp8_options(const struct plan *p) { return plan_own(p, &technique_fp8.options); }
