/* A second, plain form of every codec, for tests: it computes the n decoded floats directly, without a code. It sorts,
 * divides and rounds with the C library, while codec.c works on bits. */
#pragma once

#include "lib/device/dtype.h"
#include "lib/ops/codec.h"
#include <math.h>
#include <stdlib.h>

/* Round to a format with `bits` bits of mantissa (with the hidden bit), smallest step 2^least and largest number
 * `most`. */
static inline float codec_plain_round(float x, int bits, int least, double most) {
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexp((double)x, &exponent);
    double step = ldexp(1, exponent - bits > least ? exponent - bits : least);
    double y = nearbyint((double)x / step) * step;
    return (float)(fabs(y) > most ? copysign(INFINITY, y) : y);
}

static inline void codec_plain_int8(const float *x, int64_t n, float *seen) {
    for (int64_t first = 0; first < n; first += 256) {
        int64_t end = first + 256 < n ? first + 256 : n;
        float most = 0;
        bool finite = true;
        for (int64_t i = first; i < end; i++) {
            finite &= isfinite(x[i]) != 0;
            if (fabsf(x[i]) > most) most = fabsf(x[i]);
        }
        volatile float s = most / 127;       /* volatile: s, q and y are each rounded to a float */
        for (int64_t i = first; i < end; i++) {
            volatile float q = s > 0 ? rintf(x[i] / s) + 0.f : 0;       /* no -0 */
            if (fabsf(q) > 127) q = copysignf(127, q);
            volatile float y = s * q;
            seen[i] = finite ? y : NAN;
        }
    }
}

static inline void codec_plain_sign(const float *x, int64_t n, float *seen) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += fabs((double)x[i]);
    for (int64_t i = 0; i < n; i++) seen[i] = !isfinite(sum) ? NAN : (float)(sum / (double)n) * (x[i] < 0 ? -1.f : 1.f);
}

/* Order by magnitude: NaN, then infinity, then descending; equal ones by index. */
struct codec_plain_rank { float x; int64_t at; };
static inline int codec_plain_order(const void *a, const void *b) {
    const struct codec_plain_rank *p = a, *q = b;
    if (isnan(p->x) != isnan(q->x)) return isnan(p->x) ? -1 : 1;
    if (!isnan(p->x) && fabsf(p->x) != fabsf(q->x)) return fabsf(p->x) > fabsf(q->x) ? -1 : 1;
    return p->at < q->at ? -1 : 1;
}
static inline void codec_plain_topk(const float *x, int64_t n, int64_t k, float *seen) {
    struct codec_plain_rank *order = malloc(((size_t)n + 1) * sizeof *order);
    for (int64_t i = 0; i < n; i++) order[i] = (struct codec_plain_rank){x[i], i}, seen[i] = 0;
    qsort(order, (size_t)n, sizeof *order, codec_plain_order);
    for (int64_t i = 0; i < k; i++) seen[order[i].at] = order[i].x;
    free(order);
}

/* seen (n): the floats that a peer decodes for x (n). */
static inline void codec_plain(const struct codec *c, const float *x, int64_t n, float *seen) {
    if (c->kind == CODEC_INT8) codec_plain_int8(x, n, seen);
    else if (c->kind == CODEC_SIGN) codec_plain_sign(x, n, seen);
    else if (c->kind == CODEC_TOPK) codec_plain_topk(x, n, (int64_t)ceil((double)n * c->topk_percent / 100), seen);
    else
        for (int64_t i = 0; i < n; i++)
            seen[i] = c->kind == CODEC_BF16   ? codec_plain_round(x[i], 8, -133, 0x1.fep127)
                      : c->kind == CODEC_FP16 ? codec_plain_round(x[i], 11, -24, 65504)
                                              : x[i];
}

/* Do a and b have the same bits? Any two NaN count as equal. */
static inline bool codec_same_bits(const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(isnan(a[i]) && isnan(b[i])) && memcmp(&a[i], &b[i], sizeof *a)) return false;
    return true;
}

/* The coded all-reduce of lib/comm/coded.h over n_ranks, in rank order, in parts of ceil(count / n_ranks). y (n_ranks,
 * count): the ranks' terms. sum (count): the result on all ranks. residual (n_ranks, count) and sum_residual (count):
 * the codec's errors of terms and sum, for error feedback; changed in place. NULL: no feedback. */
static inline void codec_plain_all_reduce(const struct codec *c, int n_ranks, int64_t count, const float *y,
                                          float *residual, float *sum_residual, float *sum) {
    int64_t part = (count + n_ranks - 1) / n_ranks;
    float *term = malloc(((size_t)part + 1) * sizeof *term), *seen = malloc(((size_t)part + 1) * sizeof *seen);
    for (int64_t first = 0; first < count; first += part) {
        int64_t n = count - first < part ? count - first : part;
        for (int r = 0; r <= n_ranks; r++) {                         /* r == n_ranks: the sum */
            const float *from = r < n_ranks ? y + r * count + first : sum + first;
            float *left = r < n_ranks ? residual ? residual + r * count + first : NULL
                                      : sum_residual ? sum_residual + first : NULL;
            for (int64_t i = 0; i < n; i++) term[i] = left ? left[i] + from[i] : from[i];
            codec_plain(c, term, n, seen);
            for (int64_t i = 0; left && i < n; i++) left[i] = term[i] - seen[i];
            for (int64_t i = 0; i < n; i++) sum[first + i] = r && r < n_ranks ? sum[first + i] + seen[i] : seen[i];
        }
    }
    free(term);
    free(seen);
}
