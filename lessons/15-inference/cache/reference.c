/* A position's keys and values never change, because no position sees a later one. So they are kept, and a new token
 * costs one row of scores. The largest score is subtracted before the exponential, which changes the range of the
 * exponentials but not the result. */
#include "lessons/15-inference/cache/cache.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

int64_t cache_bytes(int64_t layers, int64_t key_heads, int64_t channels, int64_t seq, int64_t sequences, int64_t bytes,
                    int64_t tp) {
    return 2 * layers * (key_heads / tp) * channels * seq * sequences * bytes;
}

static void remember(struct cache *c, const double *k, const double *v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c->J; j++) {
            int64_t to = (j * c->room + c->length + i) * c->D, from = (i * c->J + j) * c->D;
            memcpy(c->keys + to, k + from, (size_t)c->D * sizeof *k);
            memcpy(c->values + to, v + from, (size_t)c->D * sizeof *v);
        }
}

static double score(const struct cache *c, const double *q, const double *key) {
    double sum = 0;
    for (int64_t d = 0; d < c->D; d++) sum += q[d] * key[d];
    return sum / sqrt((double)c->D);
}

/* y (D) of one head's query, over the first n positions. */
static void ask(const struct cache *c, const double *q, int64_t head, int64_t n, double *y) {
    int64_t first = head / (c->H / c->J) * c->room * c->D;
    double most = -INFINITY, sum = 0;
    for (int64_t t = 0; t < n; t++) most = fmax(most, score(c, q, c->keys + first + t * c->D));
    memset(y, 0, (size_t)c->D * sizeof *y);
    for (int64_t t = 0; t < n; t++) {
        double p = exp(score(c, q, c->keys + first + t * c->D) - most);
        sum += p;
        for (int64_t d = 0; d < c->D; d++) y[d] += p * c->values[first + t * c->D + d];
    }
    for (int64_t d = 0; d < c->D; d++) y[d] /= sum;
}

enum status cache_read(struct cache *c, const double *q, const double *k, const double *v, int64_t n, double *y) {
    if (n > c->room - c->length)
        return FAIL(E_CONFIG, "room for %" PRId64 " positions, %" PRId64 " are there, and %" PRId64 " come; read fewer",
                    c->room, c->length, n);
    remember(c, k, v, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < c->H; h++) {
            int64_t at = (i * c->H + h) * c->D;
            ask(c, q + at, h, c->length + i + 1, y + at);
        }
    c->length += n;
    return OK;
}
