/* The functions of a way (gemm_narrow.h); included after gemm_packed.h. */
#pragma once

#include "lib/ops/gemm/gemm_narrow.h"

static int64_t work(const struct gemm *g, int n_threads) {
    return (int64_t)sizeof(number) * work_numbers(g, n_threads);
}
static void run(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *scratch) {
    product(g, a, gemm_lda(g), b, gemm_ldb(g), bias, c, g->n, scratch);
}
