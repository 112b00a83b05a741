/* Sort numbers, and the median of sorted numbers. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static inline int sort_compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Sort x in ascending order; x may be NULL if n is 0. */
static inline void sort_doubles(double *x, int64_t n) {
    if (n > 1) qsort(x, (size_t)n, sizeof *x, sort_compare_doubles);
}

/** The median of n > 0 sorted numbers; for an even n, the mean of the two in the middle. */
static inline double sorted_median(const double *x, int64_t n) { return (x[(n - 1) / 2] + x[n / 2]) / 2; }
