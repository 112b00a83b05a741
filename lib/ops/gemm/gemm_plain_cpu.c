/* A matrix product by its formula (gemm.h), for `--gemm plain`. The packed products of this folder give the same sums,
 * in another order, and much faster. */
#include "lib/ops/cpu.h"
#include "lib/ops/gemm/gemm_plain.h"

void CPU(gemm_plain)(const struct gemm *g, const void *a_at, const void *b_at, const void *bias, void *c) {
    const elem *a = a_at, *b = b_at;
    int64_t lda = gemm_lda(g), ldb = gemm_ldb(g);
    bool wide = g->c_dtype == REAL_DTYPE;
#pragma omp parallel for
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            int64_t at = i * g->n + j;
            real sum = 0, beta = (real)g->beta;
            for (int64_t p = 0; p < g->k; p++)
                sum += load(a[g->transpose_a ? p * lda + i : i * lda + p]) *
                       load(b[g->transpose_b ? j * ldb + p : p * ldb + j]);
            sum *= (real)g->alpha;
            if (bias) sum += load(((const elem *)bias)[j]);
            if (beta != 0) sum += beta * (wide ? ((real *)c)[at] : load(((elem *)c)[at]));
            if (wide)
                ((real *)c)[at] = sum;
            else
                ((elem *)c)[at] = store(sum);
        }
}
