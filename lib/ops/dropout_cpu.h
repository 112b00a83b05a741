/* Dropout factors for the CPU kernels; see dropout.h. Only *_cpu.c files include this. */
#pragma once

#include "lib/ops/cpu.h"
#include "lib/ops/dropout.h"

/** factor[i] = m of dropout.h for elements first .. first + n-1 of the row at (t, head, sample), all global indices;
 * n <= COLUMNS. */
static inline void dropout_factors(const struct dropout *d, real *factor, int64_t first, int64_t n, int64_t t,
                                   int64_t head, int64_t sample) {
    uint32_t word[COLUMNS + 8];
    int64_t block = first / 4, skip = first % 4;
    for (int64_t i = 0; 4 * i < skip + n; i++) {
        struct philox_counter c = {{(uint32_t)(block + i), (uint32_t)t, (uint32_t)head, (uint32_t)sample}};
        c = philox(c, d->key);
        for (int l = 0; l < 4; l++) word[4 * i + l] = c.v[l];
    }
    for (int64_t i = 0; i < n; i++) factor[i] = word[skip + i] >= d->threshold ? (real)d->scale : 0;
}

/** The rows of a (B,T,C) tensor: their number n = B T, and the axes. first_c: the global index of channel 0. */
struct rows { int64_t n, B, T, C, first_c; const struct axis *t; };
static inline struct rows rows_of(const struct type *type) {
    const struct axis *a = type->shape.axis;
    struct rows r = {a[0].n * a[1].n, a[0].n, a[1].n, a[2].n, a[2].first, &a[1]};
    return r;
}

/* Convert factors to mask bytes, and back. If the mask's memory is overwritten, a byte other than 0 or 1 gives a factor
 * that no draw gives. */
static inline void mask_store(uint8_t *mask, const real *factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) mask[i] = factor[i] != 0;
}
static inline void mask_load(const struct dropout *d, const uint8_t *mask, real *factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) factor[i] = mask[i] * (real)d->scale;
}

/* Draw the factors of columns c .. c + n-1 of local row r; 1 if dropout is off. */
static inline void row_draw(const struct dropout *d, const struct rows *rows, real *factor, int64_t r, int64_t c,
                            int64_t n) {
    if (d->on)
        dropout_factors(d, factor, rows->first_c + c, n, axis_global(rows->t, r % rows->T), 0,
                        d->first_sample + r / rows->T);
    else
        for (int64_t i = 0; i < n; i++) factor[i] = 1;
}

/** Draw the factors of columns c .. c + n-1 of local row r for forward, and store their mask if the step keeps one. */
static inline void row_factors_forward(const struct dropout *d, const struct rows *rows, real *factor, int64_t r,
                                       int64_t c, int64_t n) {
    row_draw(d, rows, factor, r, c, n);
    if (d->mask) mask_store(d->mask + r * rows->C + c, factor, n);
}

/** The same factors for backward: from the stored mask, or drawn again. */
static inline void row_factors_backward(const struct dropout *d, const struct rows *rows, real *factor, int64_t r,
                                        int64_t c, int64_t n) {
    if (d->on && d->mask)
        mask_load(d, d->mask + r * rows->C + c, factor, n);
    else
        row_draw(d, rows, factor, r, c, n);
}

/** dx = m dy for (B,T,C) tensors, = or += by call->accumulate: backward_input of every op that ends in dropout. */
static inline void dropout_backward(const struct call *call, const elem *dy, elem *dx) {
    struct rows rows = rows_of(call->in[0].type);
    struct dropout dropout = dropout_of(call);
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++)
        for (int64_t first = 0; first < rows.C; first += COLUMNS) {
            int64_t at = r * rows.C + first, n = min64(COLUMNS, rows.C - first);
            real m[COLUMNS];
            row_factors_backward(&dropout, &rows, m, r, first, n);
#pragma omp simd /* dx is dy itself, or does not overlap it */
            for (int64_t c = 0; c < n; c++) put(dx + at + c, m[c] * load(dy[at + c]), add);
        }
}
