#include "lib/ops/reduce.h"

enum { BLOCK = 1024, BLOCKS = 256, LANES = 16 };   /* elements in a block; blocks between two combinations */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static const void *at(const void *x, enum dtype dtype, int64_t i) {
    return (const char *)x + i * (int64_t)dtype_size(dtype);
}

/* LANES partial sums, so that the loop vectorises; then added in order. */
static double sum_of_squares(const double *x, int64_t n) {
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    while (i + LANES <= n)
        for (int l = 0; l < LANES; l++, i++) lane[l] += x[i] * x[i];
    for (int l = 0; i < n; l++, i++) lane[l] += x[i] * x[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

/* 0 if all are finite, else NaN: x - x is 0 for a finite x only. */
static double sum_of_differences(const double *x, int64_t n) {
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    while (i + LANES <= n)
        for (int l = 0; l < LANES; l++, i++) lane[l] += x[i] - x[i];
    for (int l = 0; i < n; l++, i++) lane[l] += x[i] - x[i];
    for (int l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

/* The sum over all blocks of `block` of their elements in double. */
static double sum_blocks(double (*block)(const double *, int64_t), const void *x, enum dtype dtype, int64_t n) {
    double total = 0;
    for (int64_t first = 0; first < n; first += BLOCK * BLOCKS) {
        double partial[BLOCKS];
        int64_t end = smaller(n, first + BLOCK * BLOCKS), n_blocks = (end - first + BLOCK - 1) / BLOCK;
#pragma omp parallel for
        for (int64_t b = 0; b < n_blocks; b++) {
            double wide[BLOCK];
            int64_t from = first + b * BLOCK, length = smaller(BLOCK, end - from);
            dtype_convert(wide, FP64, at(x, dtype, from), dtype, length);
            partial[b] = block(wide, length);
        }
        for (int64_t b = 0; b < n_blocks; b++) total += partial[b];
    }
    return total;
}

double reduce_sum_of_squares(const void *x, enum dtype dtype, int64_t n) {
    return sum_blocks(sum_of_squares, x, dtype, n);
}

bool reduce_all_finite(const void *x, enum dtype dtype, int64_t n) {
    return sum_blocks(sum_of_differences, x, dtype, n) == 0;
}
