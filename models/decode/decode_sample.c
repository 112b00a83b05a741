#include "models/decode/decode_sample.h"

#include "lib/base/rng.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The k-th largest of x (1: the largest), by quickselect, which reorders x. Each round puts elements larger than a
 * pivot before smaller ones, and continues with the side that has index k - 1. Source: Hoare 1961, algorithm 65. */
static double kth_largest(double *x, int64_t n, int64_t k) {
    for (int64_t low = 0, high = n - 1; low < high;) {
        double pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] > pivot) i++;
            while (x[j] < pivot) j--;
            if (i > j) break;
            double larger = x[j];
            x[j--] = x[i];
            x[i++] = larger;
        }
        if (k - 1 <= j) high = j;
        else if (k - 1 >= i) low = i;
        else break;                                                  /* elements between j and i equal the pivot */
    }
    return x[k - 1];
}

static int64_t highest(const double *logits, int64_t n) {
    int64_t best = 0;
    for (int64_t v = 1; v < n; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

double sample_weights(const struct sampling *s, const double *logits, int64_t n, double *weights) {
    double max = logits[highest(logits, n)], least = -INFINITY, sum = 0;
    int64_t at_least = n;                                            /* candidates whose score equals the least */
    if (s->top_k > 0 && s->top_k < n) {
        memcpy(weights, logits, (size_t)n * sizeof *weights);
        least = kth_largest(weights, n, s->top_k);
        at_least = s->top_k;
        for (int64_t v = 0; v < n; v++) at_least -= logits[v] > least;
    }
    for (int64_t v = 0; v < n; v++) {
        bool candidate = logits[v] > least || (logits[v] == least && at_least-- > 0);
        weights[v] = candidate ? exp((logits[v] - max) / s->temperature) : 0;
        sum += weights[v];
    }
    return sum;
}

int32_t sample_pick(const double *weights, int64_t n, double sum, double u) {
    double before = 0;
    int32_t last = 0;
    for (int64_t v = 0; v < n; v++) {
        if (!(weights[v] > 0)) continue;
        last = (int32_t)v;
        before += weights[v];
        if (u * sum < before) break;
    }
    return last;
}

enum status sample_token(const struct sampling *s, const double *logits, int64_t n, int64_t sequence, int64_t position,
                         double *weights, int32_t *token) {
    uint64_t draw = (uint64_t)sequence << 32 | (uint64_t)position;
    for (int64_t v = 0; v < n; v++)
        if (!isfinite(logits[v]))
            return FAIL(E_NUMERIC,
                        "the score of token %" PRId64 " for position %" PRId64
                        " is %g; the weights are damaged, or fp16 overflows: use fp32",
                        v, position, fabs(logits[v]));
    if (s->temperature == 0) {
        *token = (int32_t)highest(logits, n);
        return OK;
    }
    double sum = sample_weights(s, logits, n, weights);
    *token = sample_pick(weights, n, sum, rng_uniform(s->seed, rng_stream("generate"), draw));
    return OK;
}
