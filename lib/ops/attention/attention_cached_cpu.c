/* Attention over a cache of keys and values. See attention_cached.h. Threads divide the heads; a query has only one row
 * of scores, so that it needs no tiles: it reads the cache once. */
#include "lib/ops/attention/attention_cached.h"
#include "lib/ops/attention/attention_cpu.h"

kernel CPU(attention_cached_forward), CPU(attention_latent_forward);

/* The pair of the new tokens; the cache (2,B,J,length,D), and the position of the first new token in it. latent: the
 * cache is (B,length,D), and the first `latent` channels of a row are the value; 0: keys and values. */
struct cached { struct attention_pair pair; elem *cache; int64_t length, first, latent; };

/* One head: its keys (length,D) and values in the cache, rows of D elements, of which a value has `width`. */
struct cached_head { const struct pair_head *x; elem *keys, *values; int64_t first, length, width; };

static struct cached_head cached_head_of(const struct pair_head *x) {
    const struct cached *c = (const struct cached *)x->pair;         /* the pair lies first in it */
    int64_t J = c->pair.H / c->pair.shared_by, one = c->length * c->pair.D, at = x->b * J + x->h / c->pair.shared_by;
    elem *keys = c->cache + at * one;
    if (c->latent) {
        keys = c->cache + x->b * one;
        return (struct cached_head){x, keys, keys, c->first, c->length, c->latent};
    }
    return (struct cached_head){x, keys, keys + c->pair.B * J * one, c->first, c->length, c->pair.D};
}

static void remember(const struct cached_head *c, int64_t t) {
    const struct attention_pair *p = c->x->pair;
    int64_t D = p->D, at = (c->first + t) * D;
    for (int64_t d = 0; d < D; d++) c->keys[at + d] = c->x->k[t * p->k.row + d];
    for (int64_t d = 0; d < D; d++) c->values[at + d] = c->x->v[t * p->v.row + d];
}

/* s[j] = e^(q . k[j] / sqrt(D) - max) for the n keys from `keys` on; returns their sum, with the sink's. */
static real weigh(const struct cached_head *c, const elem *q, const elem *keys, real *s, int64_t n) {
    int64_t D = c->x->pair->D;
    real scale = (real)c->x->pair->scale;
    for (int64_t j = 0; j < n; j++) {
        const elem *k = keys + j * D;
        s[j] = scale * SUM_OVER(d, D, load(q[d]) * load(k[d]));
    }
    cap_scores(c->x->pair, s, n);
    real max = MAX_OVER(j, n, s[j]), sink = c->x->sink;
    if (sink > max) max = sink;
    for (int64_t j = 0; j < n; j++) s[j] = real_exp(s[j] - max);
    return SUM_OVER(j, n, s[j]) + real_exp(sink - max);
}

/* y = sum_j s[j] v[j] / sum for the n values from `values` on, COLUMNS channels at a time. */
static void mix(const struct cached_head *c, const elem *values, const real *s, real sum, elem *y, int64_t n) {
    int64_t D = c->x->pair->D;
    for (int64_t first = 0; first < c->width; first += COLUMNS) {
        int64_t width = min64(COLUMNS, c->width - first);
        real mixed[COLUMNS] = {0};
        for (int64_t j = 0; j < n; j++)
            for (int64_t d = 0; d < width; d++) mixed[d] += s[j] * load(values[j * D + first + d]);
        for (int64_t d = 0; d < width; d++) y[first + d] = store(mixed[d] / sum);
    }
}

/* The rows of the new tokens are in the cache. */
static void attend(const struct pair_head *x, struct scratch scratch) {
    const struct attention_pair *p = x->pair;
    struct cached_head c = cached_head_of(x);
    real *scores = take(&scratch, c.length);
    elem *y = (elem *)p->y.at + x->b * p->y.sample + x->h * c.width;
    scores[c.length - 1] = 0;                                        /* written so that planned bytes are touched */
    for (int64_t t = 0; t < p->Tq; t++) {
        int64_t end = c.first + t + 1, first = p->view.window ? max64(0, end - p->view.window) : 0;
        real sum = weigh(&c, x->q + t * p->q.row, c.keys + first * p->D, scores, end - first);
        mix(&c, c.values + first * p->D, scores, sum, y + t * p->y.row, end - first);
    }
}

static void forward_head(const struct pair_head *x, struct scratch scratch) {
    struct cached_head c = cached_head_of(x);
    for (int64_t t = 0; is_first_of_keys(x) && t < x->pair->Tq; t++) remember(&c, t);
    attend(x, scratch);
}

enum status CPU(attention_cached_forward)(const struct call *call) {
    const struct axis *t = &call->in[0].type->shape.axis[1];
    struct cached c = {attention_pair_of(call), call->weight[0].data, t->global, t->first, 0};
    c.pair.lse = NULL;
    each_head(&c.pair, t->global, forward_head);
    return OK;
}

/* ---- a cache of latents ---- */

static struct attention_pair latent_pair(const struct call *call) {
    const struct axis *q = call->in[0].type->shape.axis;
    const struct attention_rule *rule = &call->step->attention;
    int64_t T = q[1].n, H = q[2].n, A = q[3].n, L = call->in[1].type->shape.axis[2].n;
    return (struct attention_pair){
        .B = q[0].n, .H = H, .D = A, .Tq = T, .Tk = T, .shared_by = 1, .view = rule->view, .causal = true,
        .scale = rule->factor, .dtype = op_dtype(call), .q = {call->in[0].data, T * H * A, H * A, 1},
        .y = {call->out[0].data, T * H * L, H * L, 1}, .n_threads = attention_latent_threads(call),
        .sinks = {rule->view.sinks ? call->weight[1].data : NULL, {NULL, NULL}}, .work = call->work};
}

/* Row t of sample b is [c ; s] of its newest tokens. */
static void remember_latents(const struct cached *c, const elem *latents, const elem *shared) {
    const struct attention_pair *p = &c->pair;
    int64_t A = p->D, L = c->latent;
    for (int64_t i = 0; i < p->B * p->Tq; i++) {
        elem *row = c->cache + (i / p->Tq * c->length + c->first + i % p->Tq) * A;
        for (int64_t l = 0; l < L; l++) row[l] = latents[i * L + l];
        for (int64_t l = L; l < A; l++) row[l] = shared[i * (A - L) + l - L];
    }
}

enum status CPU(attention_latent_forward)(const struct call *call) {
    const struct axis *t = &call->in[0].type->shape.axis[1];
    struct cached c = {latent_pair(call), call->weight[0].data, t->global, t->first,
                       call->in[1].type->shape.axis[2].n};
    remember_latents(&c, call->in[1].data, call->in[2].data);
    each_head(&c.pair, t->global, attend);
    return OK;
}
