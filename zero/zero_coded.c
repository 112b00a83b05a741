/* Gradients on their way to their owners, as codes (--grad-codec).
 *
 * Idea: buckets as in zero_bucket.c, rank by rank. But a bucket is encoded shard by shard, and goes as an all-to-all of
 * bytes; the owner decodes its shard of all ranks and adds in rank order (lib/comm/coded.h). That is the first half of
 * what dp does. The second half falls away: a sum stays with its owner, unrounded.
 *
 * Formula, with C(x) what x is taken for after its code, for each gradient g_r of rank r that gets ready:
 *     y_r = g_r + e_r     e_r = y_r - C(y_r)     own gradient (+)= sum_r C(y_r)
 * Stages 2 and 3 do so for each microbatch: what one leaves the next takes along.
 *
 * Stored where: in the comm arena, for each of two slots a bucket in fp32 and twice its codes; with feedback e, by
 * param, whole on every rank: 4 bytes per parameter that ZeRO does not shard.
 *
 * Sent when: as in zero.c, in b n (n-1)/n bytes, b n = the codes of all n shards of a bucket.
 *
 * What breaks: padding that is no zero, and scales its block; two gradients of one param in a bucket that both take the
 * same residual along.
 *
 * Source: Wang et al. 2023, "ZeRO++", section 3.3 (qgZ, within one level); residuals as in lib/comm/coded.h. */
#include "zero/zero_coded.h"

#include "lib/base/integer.h"
#include "zero/zero_pack.h"
#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */
/* Bytes of the codes of all shards: what one all-to-all carries. */
static int64_t code_bytes(const struct zero_coded *z, const struct zero_bucket *b) {
    return coded_wire_bytes(&z->codec, b->count * b->n_ranks, b->n_ranks);
}

static enum status size_residuals(struct zero_coded *z, const struct program *p) {
    z->residual = calloc((size_t)p->n_params + 1, sizeof *z->residual);
    z->residual_n = calloc((size_t)p->n_params + 1, sizeof *z->residual_n);
    if (!z->residual || !z->residual_n) return FAIL(E_MEMORY, "no memory for the residuals of %d params", p->n_params);
    z->n_residuals = p->n_params;
    for (int i = 0; i < z->order.n_params; i++)
        z->residual_n[z->order.params[i]] = type_n(&p->params[z->order.params[i]].type);
    return OK;
}

enum status zero_coded_init(struct zero_coded *z, const struct compiled *c, bool every, int64_t bytes,
                            struct codec codec, bool feedback) {
    *z = (struct zero_coded){.codec = codec};
    TRY(zero_buckets_init(&z->order, c, every, bytes));
    for (int i = 0; i < ZERO_SLOTS; i++) z->slots[i].bucket = -1;
    for (int i = 0; i < z->order.n; i++) {
        const struct zero_bucket *b = &z->order.buckets[i];
        struct zero_coded_slot *s = &z->slots[i % ZERO_SLOTS];
        s->full_bytes = max64(s->full_bytes, b->count * b->n_ranks * (int64_t)sizeof(float));
        s->code_bytes = max64(s->code_bytes, code_bytes(z, b));
    }
    return feedback ? size_residuals(z, c->program) : OK;
}

void zero_coded_fini(struct zero_coded *z) {
    zero_buckets_fini(&z->order);
    free(z->residual);
    free(z->residual_n);
    *z = (struct zero_coded){0};
}

/* ---- memory and bill ---- */
/* [ slots | residuals | a float: codes may end in bytes that look as if they had never been written ]
 * base NULL: only the extent. @return bytes */
static int64_t lay_out(struct zero_coded *z, char *base) {
    int64_t end = 0;
    for (int i = 0; i < ZERO_SLOTS; i++) {
        struct zero_coded_slot *s = &z->slots[i];
        int64_t full = arena_align(end), codes = arena_align(full + s->full_bytes);
        if (base) s->full = (float *)(base + full);
        if (base) s->coded.sent = (unsigned char *)base + codes, s->coded.got = s->coded.sent + s->code_bytes;
        end = codes + 2 * s->code_bytes;
    }
    for (int i = 0; i < z->n_residuals; i++) {
        end = arena_align(end);
        if (base) z->residual[i] = (float *)(base + end);
        end += z->residual_n[i] * (int64_t)sizeof(float);
    }
    return arena_align(end + (int64_t)sizeof(float));
}

int64_t zero_coded_comm_bytes(const struct zero_coded *z) {
    struct zero_coded sizes = *z;
    return lay_out(&sizes, NULL);
}

void zero_coded_place(struct zero_coded *z, void *comm) {
    memset(comm, 0, (size_t)lay_out(z, comm));
}

bool zero_coded_term(const struct zero_coded *z, const struct program *p, int i, struct rank_term *out) {
    if (i >= z->n_residuals) return false;
    const struct param *w = &p->params[i];
    *out = (struct rank_term){w->name, "residual", {w->type.shape, 0, z->residual_n[i]}, z->residual[i],
                              mesh_index(param_replicas(w), &p->place) == 0 && w->counted};
    out->piece = piece_without_padding(out->piece);
    return true;
}

/* Filling reads and writes the bucket, encoding reads it and writes codes; decoding reads these, and reads and writes a
 * shard for each; feedback reads and writes bucket and residuals twice. */
static double work_bytes(const struct zero_coded *z, const struct zero_bucket *b) {
    double whole = (double)(b->count * b->n_ranks) * sizeof(float), shard = (double)b->count * sizeof(float);
    return 5 * whole + 2 * (double)code_bytes(z, b) + 3 * shard + (z->n_residuals ? 6 * whole : 0);
}

void zero_coded_bill(const struct zero_coded *z, const struct program *p, struct bill *bill) {
    struct rank_term term;
    for (int i = 0; i < z->order.n; i++) {
        const struct zero_bucket *b = &z->order.buckets[i];
        bill_exchange(bill, &p->place, (struct exchange){.axis = b->axis, .op = COMM_ALL_TO_ALL,
                                                         .count = code_bytes(z, b), .dtype = UINT8,
                                                         .when = BEHIND_BACKWARD, .packing = work_bytes(z, b)});
    }
    for (int i = 0; zero_coded_term(z, p, i, &term); i++) bill_saved(bill, term.piece.n * (int64_t)sizeof(float));
}

/* ---- running ---- */
/* A gradient with what was left before, which leaves its place; padding is zero. */
static void pack(struct zero_coded *z, const struct zero_bucket *b, const struct zero_coded_slot *s, int param,
                 const struct param *w, const float *gradient) {
    for (int r = 0; r < b->n_ranks; r++) {
        float *to = s->full + r * b->count + z->order.filled;
        int64_t first = r * w->shard_n, n = coded_own_count(type_n(&w->type), b->n_ranks, r);
        memset(to, 0, (size_t)w->shard_n * sizeof *to);
        memcpy(to, gradient + first, (size_t)n * sizeof *to);
        for (int64_t i = 0; z->n_residuals && i < n; i++) {
            to[i] += z->residual[param][first + i];
            z->residual[param][first + i] = 0;
        }
    }
}

/* What encoding has rounded away goes back to its params. Of two gradients of one param in a bucket both leave some. */
static void keep_rest(struct zero_coded *z, const struct program *p, const struct zero_bucket *b,
                      const struct zero_coded_slot *s) {
    const float *rest = s->full;
    for (int r = 0; r < b->n_ranks; r++)
        for (int i = b->first; i < b->first + b->n; i++) {
            const struct param *w = &p->params[z->order.params[i]];
            float *residual = z->residual[z->order.params[i]] + r * w->shard_n;
            int64_t n = coded_own_count(type_n(&w->type), b->n_ranks, r);
            for (int64_t k = 0; k < n; k++) residual[k] += rest[k];
            rest += w->shard_n;
        }
}

static enum status start(struct zero_coded *z, const struct program *p, const struct zero_bucket *b,
                         struct zero_coded_slot *s, const struct group *group) {
    s->coded.codec = z->codec;
    s->coded.group = group;
    s->coded.count = b->count * b->n_ranks;
    TRY(coded_reduce_scatter_start(&s->coded, s->full));
    if (!z->n_residuals) return OK;
    coded_subtract_sent(&s->coded, s->full);
    keep_rest(z, p, b, s);
    return OK;
}

/* Wait for the slot's bucket, and hand the sums to their owners. */
static enum status arrive(struct zero_coded *z, const struct program *p, struct zero_coded_slot *s, bool accumulate) {
    if (s->bucket < 0) return OK;
    const struct zero_bucket *b = &z->order.buckets[s->bucket];
    const float *from = s->full + group_rank(s->coded.group) * b->count;
    TRY(coded_reduce_scatter_wait(&s->coded));
    for (int i = 0; i < b->n; i++) {
        const struct param *w = &p->params[z->order.params[b->first + i]];
        if (accumulate) TRY(zero_add(device_cpu(), param_own_grad(w), from, w->own_n, FP32));
        else memcpy(param_own_grad(w), from, (size_t)w->own_n * sizeof *from);
        from += w->shard_n;
    }
    s->bucket = -1;
    return OK;
}

enum status zero_coded_ready(struct zero_coded *z, const struct program *p, int param, const float *buffer,
                             bool accumulate, const struct group *group) {
    struct zero_buckets *o = &z->order;
    if (o->at >= o->n_params || o->params[o->at] != param)
        return FAIL(E_INTERNAL, "gradient %d of the step is that of %s, and not the predicted one", o->at,
                    p->params[param].name);
    const struct zero_bucket *b = &o->buckets[o->current];
    struct zero_coded_slot *s = &z->slots[o->current % ZERO_SLOTS];
    if (o->filled == 0) TRY(arrive(z, p, s, accumulate));            /* the slot's previous bucket */
    pack(z, b, s, param, &p->params[param], buffer);
    o->filled += p->params[param].shard_n;
    o->at++;
    if (o->at < b->first + b->n) return OK;
    s->bucket = o->current++;
    o->filled = 0;
    return start(z, p, b, s, group);
}

enum status zero_coded_finish(struct zero_coded *z, const struct program *p, bool accumulate) {
    struct zero_buckets *o = &z->order;
    if (o->at != o->n_params)
        return FAIL(E_INTERNAL, "%d gradients of %d came before the end of backward", o->at, o->n_params);
    for (int i = 0; i < ZERO_SLOTS; i++)                             /* the older one first */
        TRY(arrive(z, p, &z->slots[(o->current + i) % ZERO_SLOTS], accumulate));
    o->at = o->current = 0;
    return OK;
}
