/* Merge the results of a query's several pairs. See attention_pair.h. Memory-bound, a small part of a pair's time: a
 * pair has as many products for each of these numbers as it has keys. */
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"

attention_merge_kernel CPU(attention_merge_begin), CPU(attention_merge);
attention_merge_end_kernel CPU(attention_merge_end);
attention_pack_kernel CPU(attention_pack);
attention_unpack_kernel CPU(attention_unpack);

/* log(e^a + e^b); a may be -infinity. */
static real log_sum(real a, real b) {
    real most = a > b ? a : b;
    return most + (real)log(exp((double)(a - most)) + exp((double)(b - most)));
}

static void merge_row(real *sum, const elem *y, int64_t D, real keep, real add) {
    for (int64_t d = 0; d < D; d++) sum[d] = sum[d] * keep + load(y[d]) * add;
}

enum status CPU(attention_merge)(const struct attention_merge *m) {
#pragma omp parallel for collapse(2) num_threads(m->n_threads)
    for (int64_t b = 0; b < m->B; b++)
        for (int64_t h = 0; h < m->H; h++)
            for (int64_t t = m->first; t < m->T; t++) {
                int64_t row = (b * m->H + h) * m->T + t, at = ((b * m->T + t) * m->H + h) * m->D;
                real *lse = (real *)m->lse + row, more = ((const real *)m->lse_pair)[row], all = log_sum(*lse, more);
                merge_row((real *)m->y + at, (const elem *)m->y_pair + at, m->D, real_exp(*lse - all),
                          real_exp(more - all));
                *lse = all;
            }
    return OK;
}

enum status CPU(attention_merge_begin)(const struct attention_merge *m) {
    for (int64_t i = 0; i < m->B * m->T * m->H; i++) ((real *)m->lse)[i] = -(real)INFINITY;
    for (int64_t i = 0; i < m->B * m->T * m->H * m->D; i++) ((real *)m->y)[i] = 0;
    return OK;
}

enum status CPU(attention_merge_end)(const struct attention_merge *m, void *y, void *lse) {
    for (int64_t i = 0; i < m->B * m->T * m->H; i++) ((real *)lse)[i] = ((const real *)m->lse)[i];
    for (int64_t i = 0; i < m->B * m->T * m->H * m->D; i++) ((elem *)y)[i] = store(((const real *)m->y)[i]);
    return OK;
}

/* Vector t of sample b. */
static elem *element_of(const struct attention_copy *c, int64_t b, int64_t t) {
    return (elem *)c->vectors.at + b * c->vectors.sample + t * c->vectors.row;
}

enum status CPU(attention_pack)(const struct attention_copy *c) {
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t t = 0; t < c->T; t++)
            memcpy((elem *)c->dense + (b * c->T + t) * c->width, element_of(c, b, t), (size_t)c->width * sizeof(elem));
    return OK;
}

enum status CPU(attention_unpack)(const struct attention_copy *c, bool add) {
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t t = 0; t < c->T; t++)
            for (int64_t i = 0; i < c->width; i++)
                put(element_of(c, b, t) + i, ((const real *)c->dense)[(b * c->T + t) * c->width + i], add);
    return OK;
}
