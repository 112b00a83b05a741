/* The moves of multi-head latent attention. See mla.h. Bound by memory; a thread takes whole tokens. */
#include "lib/ops/cpu.h"
#include "lib/ops/mla.h"

kernel CPU(mla_split_forward), CPU(mla_split_backward_input), CPU(mla_keys_forward), CPU(mla_keys_backward_input),
    CPU(mla_values_forward), CPU(mla_values_backward_input), CPU(mla_absorb_forward), CPU(mla_expand_forward);

static void move(elem *to, const elem *from, int64_t n, int add) {
    for (int64_t i = 0; i < n; i++) put(to + i, load(from[i]), add);
}
static void clear(elem *to, int64_t n) { memset(to, 0, (size_t)n * sizeof *to); }

enum status CPU(mla_split_forward)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    const elem *x = call->in[0].data;
    elem *c = call->out[0].data, *shared = call->out[1].data;
#pragma omp parallel for
    for (int64_t t = 0; t < s.n; t++) {
        const elem *from = x + t * (s.latent + s.shared);
        move(c + t * s.latent, from, s.latent, false);
        move(shared + t * s.shared, from + s.latent, s.shared, false);
    }
    return OK;
}

enum status CPU(mla_split_backward_input)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    const elem *dc = call->dout[0].data, *dshared = call->dout[1].data;
    elem *dx = call->din[0].data;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t t = 0; t < s.n; t++) {
        elem *to = dx + t * (s.latent + s.shared);
        move(to, dc + t * s.latent, s.latent, add);
        move(to + s.latent, dshared + t * s.shared, s.shared, add);
    }
    return OK;
}

enum status CPU(mla_keys_forward)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    const elem *x = call->in[0].data, *shared = call->in[1].data;
    elem *kv = call->out[0].data;
    int64_t W = s.before + s.value, of_keys = s.heads * s.D;
#pragma omp parallel for
    for (int64_t i = 0; i < s.n * s.heads; i++) {
        int64_t t = i / s.heads, h = i % s.heads;
        elem *k = kv + t * 2 * of_keys + h * s.D, *v = k + of_keys;
        move(k, x + i * W, s.before, false);
        move(k + s.before, shared + t * s.shared, s.shared, false);
        move(v, x + i * W + s.before, s.value, false);
        clear(v + s.value, s.D - s.value);
    }
    return OK;
}

/* ds of a token: the sum over heads, in order. */
static void sum_shared(const struct mla_sizes *s, const elem *dk, elem *dshared, int add) {
    for (int64_t first = 0; first < s->shared; first += COLUMNS) {
        int64_t n = min64(COLUMNS, s->shared - first);
        real sum[COLUMNS] = {0};
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < n; i++) sum[i] += load(dk[h * s->D + s->before + first + i]);
        for (int64_t i = 0; i < n; i++) put(dshared + first + i, sum[i], add);
    }
}

enum status CPU(mla_keys_backward_input)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    const elem *dkv = call->dout[0].data;
    elem *dx = call->din[0].data, *dshared = call->din[1].data;
    int64_t W = s.before + s.value, of_keys = s.heads * s.D;
    int add = accumulates(call, 0), add_shared = accumulates(call, 1);
#pragma omp parallel for
    for (int64_t t = 0; t < s.n; t++) {
        const elem *dk = dkv + t * 2 * of_keys, *dv = dk + of_keys;
        for (int64_t h = 0; h < s.heads; h++) {
            elem *to = dx + (t * s.heads + h) * W;
            move(to, dk + h * s.D, s.before, add);
            move(to + s.before, dv + h * s.D, s.value, add);
        }
        sum_shared(&s, dk, dshared + t * s.shared, add_shared);
    }
    return OK;
}

enum status CPU(mla_values_forward)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    const elem *y = call->in[0].data;
    elem *u = call->out[0].data;
#pragma omp parallel for
    for (int64_t i = 0; i < s.n * s.heads; i++) move(u + i * s.value, y + i * s.D, s.value, false);
    return OK;
}

enum status CPU(mla_values_backward_input)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    const elem *du = call->dout[0].data;
    elem *dy = call->din[0].data;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t i = 0; i < s.n * s.heads; i++) {
        move(dy + i * s.D, du + i * s.value, s.value, add);
        if (!add) clear(dy + i * s.D + s.value, s.D - s.value);
    }
    return OK;
}

/* ---- the products of decoding: a thread takes whole heads, whose rows all tokens use ---- */

/* a[l] = sum_i n[i] w[i,l], COLUMNS channels at a time */
static void absorb(elem *a, const elem *n, const elem *w, const struct mla_product *s) {
    for (int64_t first = 0; first < s->L; first += COLUMNS) {
        int64_t width = min64(COLUMNS, s->L - first);
        real sum[COLUMNS] = {0};
        for (int64_t i = 0; i < s->N; i++)
            for (int64_t l = 0; l < width; l++) sum[l] += load(n[i]) * load(w[i * s->L + first + l]);
        for (int64_t l = 0; l < width; l++) a[first + l] = store(sum[l]);
    }
}

enum status CPU(mla_absorb_forward)(const struct call *call) {
    const struct mla_product s = mla_product(call);
    const elem *q = call->in[0].data, *w = call->weight[0].data;
    elem *a = call->out[0].data;
#pragma omp parallel for
    for (int64_t h = 0; h < s.heads; h++)
        for (int64_t t = 0; t < s.n; t++) {
            const elem *from = q + (t * s.heads + h) * (s.N + s.S);
            elem *to = a + (t * s.heads + h) * (s.L + s.S);
            absorb(to, from, w + h * (s.N + s.U) * s.L, &s);
            move(to + s.L, from + s.N, s.S, false);
        }
    return OK;
}

enum status CPU(mla_expand_forward)(const struct call *call) {
    const struct mla_product s = mla_product(call);
    const elem *o = call->in[0].data, *w = call->weight[0].data;
    elem *u = call->out[0].data;
#pragma omp parallel for
    for (int64_t h = 0; h < s.heads; h++)
        for (int64_t t = 0; t < s.n; t++) {
            const elem *from = o + (t * s.heads + h) * s.L, *rows = w + (h * (s.N + s.U) + s.N) * s.L;
            elem *to = u + (t * s.heads + h) * s.U;
            for (int64_t i = 0; i < s.U; i++) to[i] = store(SUM_OVER(l, s.L, load(rows[i * s.L + l]) * load(from[l])));
        }
    return OK;
}
