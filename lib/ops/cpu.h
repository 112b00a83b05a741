/* Helpers of the CPU kernels, written once for the four element types of real.h. Only *_cpu.c files include this. */
#pragma once

#include "lib/base/integer.h"
#include "lib/ops/op.h"
#include "lib/ops/real.h"
#include <math.h>

/* Columns that a thread sums at a time. Weight gradients are split over threads by columns, and each thread adds all
 * rows of its columns in order. So the sums do not depend on the number of threads. */
enum { COLUMNS = 64 };

/** *to = value, or += for inputs that several steps read (call->accumulate). Rounded once. Written for the vectoriser:
 *  *to is read in either case, because a branch around the load, or a choice by a bool, keeps gcc from vectorising the
 *  loop. */
static inline void put(elem *to, real value, int accumulate) {
    real old = load(*to);
    *to = store(accumulate ? old + value : value);
}
static inline int accumulates(const struct call *call, int i) { return call->accumulate >> i & 1; }

/* SUM_OVER(i, n, expression): the sum of the expression for i = 0 .. n-1. C forbids the compiler to reorder a sum, and
 * a single running sum cannot be vectorised; so the order is chosen here: LANES partial sums, added pairwise at the
 * end. The order is fixed by n alone. The error is at most (n / LANES + log2 LANES) roundings. A macro, because the
 * expression is code. */
enum { LANES = 32 };
static inline real sum_lanes(real lane[LANES]) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lane[l] += lane[l + width];
    return lane[0];
}
#define SUM_OVER(i, n, expression)                                                                                     \
    ({                                                                                                                 \
        real lane_[LANES] = {0};                                                                                       \
        int64_t i = 0, n_ = (n);                                                                                       \
        while (i + LANES <= n_)                                                                                        \
            for (int l_ = 0; l_ < LANES; l_++, i++) lane_[l_] += (expression);                                         \
        for (int l_ = 0; i < n_; l_++, i++) lane_[l_] += (expression);                                                 \
        sum_lanes(lane_);                                                                                              \
    })

/* MAX_OVER(i, n, expression): the largest, -infinity for n = 0; NaN is skipped. It uses lanes, as SUM_OVER does. */
static inline real max_lanes(real lane[LANES]) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lane[l] = lane[l + width] > lane[l] ? lane[l + width] : lane[l];
    return lane[0];
}
#define MAX_OVER(i, n, expression)                                                                                     \
    ({                                                                                                                 \
        real lane_[LANES];                                                                                             \
        int64_t i = 0, n_ = (n);                                                                                       \
        for (int l_ = 0; l_ < LANES; l_++) lane_[l_] = -(real)INFINITY;                                                \
        while (i + LANES <= n_)                                                                                        \
            for (int l_ = 0; l_ < LANES; l_++, i++) lane_[l_] = (expression) > lane_[l_] ? (expression) : lane_[l_];   \
        for (int l_ = 0; i < n_; l_++, i++) lane_[l_] = (expression) > lane_[l_] ? (expression) : lane_[l_];           \
        max_lanes(lane_);                                                                                              \
    })

/** dweight[first + i] += value[i], i < n. A weight's gradient has the weight's dtype, or the accumulator's where
 * gradients are kept in higher precision. */
static inline void grad_add(const struct tensor *dweight, int64_t first, const real *value, int64_t n) {
    if (dweight->type->dtype == REAL_DTYPE) {
        real *grad = (real *)dweight->data + first;
        for (int64_t i = 0; i < n; i++) grad[i] += value[i];
    } else {
        elem *grad = (elem *)dweight->data + first;
        for (int64_t i = 0; i < n; i++) grad[i] = store(load(grad[i]) + value[i]);
    }
}
