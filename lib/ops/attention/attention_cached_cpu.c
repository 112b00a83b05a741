/* Attention over a cache of keys and values. See attention_cached.h. Threads divide the heads; a query is one row of
 * scores, so nothing is done by tiles: the work is reading the cache once. */
#include "lib/ops/attention/attention_cached.h"
#include "lib/ops/attention/attention_cpu.h"
#include <omp.h>

kernel CPU(attention_cached_forward);

/* One head of one sample: its keys (T,D) and values (T,D) in the cache, and the position of the first new token. */
struct cached_head { struct head head; elem *keys, *values; int64_t first; };

static struct cached_head cached_head_of(const struct call *call, int64_t b, int64_t h) {
    const struct axis *t = &call->in[0].type->shape.axis[1];
    struct head head = head_of(call, b, h);
    int64_t length = t->global * head.s.D, all = head.s.B * head.s.H * length, at = (b * head.s.H + h) * length;
    elem *cache = call->weight[0].data;
    struct cached_head c = {head, cache + at, cache + all + at, t->first};
    return c;
}

static void remember(const struct cached_head *c, const elem *qkv, int64_t t) {
    int64_t D = c->head.s.D, at = (c->first + t) * D, row = t * c->head.s.row;
    for (int64_t d = 0; d < D; d++) c->keys[at + d] = qkv[c->head.k_at + row + d];
    for (int64_t d = 0; d < D; d++) c->values[at + d] = qkv[c->head.v_at + row + d];
}

/* s[j] = e^(q . k[j] / sqrt(D) - max) for j < n; returns their sum. */
static real weigh(const struct cached_head *c, const elem *q, real *s, int64_t n) {
    int64_t D = c->head.s.D;
    real scale = (real)c->head.s.scale;
    for (int64_t j = 0; j < n; j++) {
        const elem *k = c->keys + j * D;
        s[j] = scale * SUM_OVER(d, D, load(q[d]) * load(k[d]));
    }
    real max = MAX_OVER(j, n, s[j]);
    for (int64_t j = 0; j < n; j++) s[j] = real_exp(s[j] - max);
    return SUM_OVER(j, n, s[j]);
}

/* y = sum_j s[j] v[j] / sum, COLUMNS channels at a time. */
static void mix(const struct cached_head *c, const real *s, real sum, elem *y, int64_t n) {
    int64_t D = c->head.s.D;
    for (int64_t first = 0; first < D; first += COLUMNS) {
        int64_t width = min64(COLUMNS, D - first);
        real mixed[COLUMNS] = {0};
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < width; d++) mixed[d] += s[j] * load(c->values[j * D + first + d]);
        for (int64_t d = 0; d < width; d++) y[first + d] = store(mixed[d] / sum);
    }
}

enum status CPU(attention_cached_forward)(const struct call *call) {
    const elem *qkv = call->in[0].data;
    elem *y = call->out[0].data;
    struct attention_sizes s = attention_sizes(call);
    int64_t length = call->in[0].type->shape.axis[1].global;
#pragma omp parallel for collapse(2) num_threads(attention_threads(call))
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++) {
            struct cached_head c = cached_head_of(call, b, h);
            real *scores = (real *)call->work + omp_get_thread_num() * length;
            scores[length - 1] = 0;                                  /* so that what is planned is what is touched
                                                                      * (attention.h) */
            for (int64_t t = 0; t < s.T; t++) {
                remember(&c, qkv, t);
                real sum = weigh(&c, qkv + c.head.q_at + t * s.row, scores, c.first + t + 1);
                mix(&c, scores, sum, y + c.head.y_at + t * c.head.y_row, c.first + t + 1);
            }
        }
    return OK;
}
