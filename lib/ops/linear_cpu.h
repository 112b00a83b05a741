/* The bias gradient of a linear layer, for its CPU kernels in every precision. Only *_cpu.c files include this. */
#pragma once

#include "lib/base/integer.h"
#include "lib/ops/cpu.h"
#include "lib/ops/linear.h"
#include <omp.h>

/* Columns of dy that a thread sums at a time: its share of the K columns, but no more than fit the first-level cache.
 * Wide strips read long runs of memory. Each column has its own sum, so the width does not change the sums. */
enum { WIDEST = 2048 };
static int64_t columns_at_a_time(int64_t K) {
    int64_t share = ceil_div(K, omp_get_max_threads()), parts = ceil_div(share, WIDEST);
    return round_up(ceil_div(share, parts), COLUMNS);
}

/* sum[k] += dy[r,k] for four rows, in their order, so that a sum is loaded once for four rows. */
static void add_four_rows(real *restrict sum, const elem *restrict dy, int64_t K, int64_t n) {
    for (int64_t k = 0; k < n; k++)
        sum[k] = sum[k] + load(dy[k]) + load(dy[K + k]) + load(dy[2 * K + k]) + load(dy[3 * K + k]);
}

/* db[k] += sum_r dy[r,k], with dy read in memory order. linear_cpu.c runs this before the product dW, which reads dy by
 * columns, and then finds dy in the cache. */
static void bias_gradient(const struct tensor *dbias, const elem *dy, int64_t R, int64_t K) {
    int64_t width = columns_at_a_time(K);
#pragma omp parallel for
    for (int64_t first = 0; first < K; first += width) {
        real sum[WIDEST] = {0};
        int64_t n = min64(width, K - first), r = 0;
        for (; r + 4 <= R; r += 4) add_four_rows(sum, dy + r * K + first, K, n);
        for (; r < R; r++)
            for (int64_t k = 0; k < n; k++) sum[k] += load(dy[r * K + first + k]);
        grad_add(dbias, first, sum, n);
    }
}
