#include "lib/base/auc.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
    double x = ((const struct score *)a)->score, y = ((const struct score *)b)->score;
    return (x > y) - (x < y);
}

double auc_of(struct score *s, int64_t n) {
    double clicks = 0, others = 0, pairs = 0;
    for (int64_t i = 0; i < n; i++)
        if (isnan(s[i].score)) return NAN;
    qsort(s, (size_t)n, sizeof *s, compare);
    for (int64_t from = 0, end; from < n; from = end) {              /* samples with equal scores */
        double clicks_here = 0, others_here = 0;
        for (end = from; end < n && s[end].score == s[from].score; end++)
            clicks_here += s[end].label, others_here += 1 - s[end].label;
        pairs += clicks_here * (others + others_here / 2);
        clicks += clicks_here;
        others += others_here;
    }
    return clicks > 0 && others > 0 ? pairs / (clicks * others) : NAN;
}
