/* Choose the values to drop after forward: a knapsack. To keep the budget, free at least the bytes that exceed it. */
#include "lessons/09-recompute/choose/choose.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t less(int64_t a, int64_t b) { return a < b ? a : b; }

/* Row i has the least flops with which values 0 .. i - 1 free at least u units, for u = 0 .. need. */
static void fill_table(double *least, const struct candidate *values, int n, int64_t unit, int64_t need) {
    for (int64_t u = 0; u <= need; u++) least[u] = u == 0 ? 0 : INFINITY;
    for (int i = 0; i < n; i++) {
        const double *above = least + i * (need + 1);
        double *row = least + (i + 1) * (need + 1);
        for (int64_t u = 0; u <= need; u++)
            row[u] = fmin(above[u], above[u - less(u, values[i].bytes / unit)] + values[i].flops);
    }
}

/* From the last value to the first, find whether the least flops drop the value. */
static void read_back(const double *least, const struct candidate *values, int n, int64_t unit, int64_t need,
                      bool *drop) {
    int64_t u = need;
    for (int i = n - 1; i >= 0; i--) {
        drop[i] = least[(i + 1) * (need + 1) + u] < least[i * (need + 1) + u];
        if (drop[i]) u -= less(u, values[i].bytes / unit);
    }
}

enum status choose_values(const struct candidate *values, int n, int64_t unit, int64_t budget, bool *drop) {
    int64_t all = 0, fixed = 0;
    for (int i = 0; i < n; i++) all += values[i].bytes;
    for (int i = 0; i < n; i++) fixed += isinf(values[i].flops) ? values[i].bytes : 0;
    if (fixed > budget)
        return FAIL(E_CONFIG, "%" PRId64 " bytes cannot be made again, and the budget is %" PRId64 "; allow more",
                    fixed, budget);
    int64_t need = all > budget ? (all - budget + unit - 1) / unit : 0;
    double *least = malloc((size_t)((n + 1) * (need + 1)) * sizeof *least);
    if (!least) return FAIL(E_MEMORY, "no memory to choose among %d values", n);
    fill_table(least, values, n, unit, need);
    read_back(least, values, n, unit, need, drop);
    free(least);
    return OK;
}

enum status choose_group(int n_layers, int in_flight, int64_t input, int64_t saved, int *group) {
    int64_t best = INT64_MAX;
    for (int n = 1; n <= n_layers; n++) {
        int64_t bytes = (n_layers + n - 1) / n * in_flight * input + n * saved;
        if (bytes >= best) continue;
        best = bytes;
        *group = n;
    }
    return OK;
}
