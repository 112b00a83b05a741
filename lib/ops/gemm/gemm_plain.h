/* The product in plain loops, for each element type (gemm_plain_cpu.c). Private to gemm.c. */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** As gemm_run; sums run over p = 0 .. k-1 in order. No scratch. */
typedef void gemm_plain(const struct gemm *, const void *a, const void *b, const void *bias, void *c);
gemm_plain gemm_plain_cpu_fp64, gemm_plain_cpu_fp32, gemm_plain_cpu_bf16, gemm_plain_cpu_fp16;
