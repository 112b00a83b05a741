/* Gradients that are sent to their owners as codes (--grad-codec).
 *
 * Idea: buckets as in zero_bucket.c, rank by rank. But a full bucket is encoded shard by shard and sent in an
 * all-to-all of bytes instead of a reduce-scatter. The owner decodes its shard of all ranks and adds in rank order
 * (lib/comm/coded.h). dp also all-gathers codes of the sums; here a sum stays with its owner, unrounded.
 *
 * Formula, with C(x) the value of x after encoding and decoding, g_r a gradient of rank r, e_r its param's residual:
 *     y_r = g_r + e_r     own gradient (+)= sum_r C(y_r)     the next e_r = y_r - C(y_r)
 * At stages 2 and 3 a microbatch's residual is added to the next microbatch's gradient.
 *
 * Stored where: in the comm arena. Each of the two slots has a bucket's codes twice, sent and received. With feedback
 * every rank has the residuals of whole params, 4 bytes a parameter, not sharded.
 *
 * Sent when: as in zero.c, in (n-1) b bytes a bucket, with b the bytes of a shard's code.
 *
 * What breaks: residuals of padding (a sign code has no zero); adding one residual to both of two gradients of a param
 * in a bucket.
 *
 * Source: Wang et al. 2023, "ZeRO++", section 3.3 (qgZ, within one level); residuals as in lib/comm/coded.h. */
#include "zero/zero_coded.h"

#include "lib/base/integer.h"
#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */
/* Bytes of the codes of all shards, which one all-to-all sends. */
static int64_t code_bytes(const struct codec *codec, const struct zero_bucket *b) {
    return coded_wire_bytes(codec, b->count * b->n_ranks, b->n_ranks);
}

enum status zero_coded_init(struct zero_coded *z, const struct zero_buckets *o, const struct program *p,
                            struct codec codec, bool feedback) {
    *z = (struct zero_coded){.codec = codec};
    for (int i = 0; i < o->n; i++) {
        int64_t *bytes = &z->code_bytes[i % ZERO_SLOTS];
        *bytes = max64(*bytes, code_bytes(&codec, &o->buckets[i]));
    }
    if (!feedback) return OK;
    z->residual = calloc((size_t)p->n_params + 1, sizeof *z->residual);
    z->residual_n = calloc((size_t)p->n_params + 1, sizeof *z->residual_n);
    if (!z->residual || !z->residual_n) return FAIL(E_MEMORY, "no memory for the residuals of %d params", p->n_params);
    z->n_residuals = p->n_params;
    for (int i = 0; i < o->n_params; i++) z->residual_n[o->params[i]] = type_n(&p->params[o->params[i]].type);
    return OK;
}

void zero_coded_fini(struct zero_coded *z) {
    free(z->residual);
    free(z->residual_n);
    *z = (struct zero_coded){0};
}

/* ---- memory and bill ---- */
/* [ codes | residuals | a float ]; the float is 0 and marks the end, because codes may end in bytes like the arena's
 * canary. base NULL: only compute the extent. @return bytes */
static int64_t lay_out(struct zero_coded *z, char *base) {
    int64_t end = 0;
    for (int i = 0; i < ZERO_SLOTS; i++) {
        if (base) z->slot[i].sent = (unsigned char *)base + end, z->slot[i].got = z->slot[i].sent + z->code_bytes[i];
        end += 2 * z->code_bytes[i];
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

/* Passes over the whole bucket: filling 2, encoding 1, decoding 2; feedback 9: take_along 4, subtracting what was sent
 * 2, leave 3. Over its codes: encoding 1, decoding 1, feedback 1. Over the shard: copying the sum 2, adding it 3. */
static double work_bytes(const struct zero_coded *z, const struct zero_bucket *b) {
    double whole = (double)(b->count * b->n_ranks) * sizeof(float), shard = (double)b->count * sizeof(float);
    const double codes = (double)code_bytes(&z->codec, b);
    return 5 * whole + 2 * codes + 5 * shard + (z->n_residuals ? 9 * whole + codes : 0);
}

void zero_coded_bill(const struct zero_coded *z, const struct zero_buckets *o, const struct program *p,
                     struct bill *bill) {
    struct rank_term term;
    for (int i = 0; i < o->n; i++) {
        const struct zero_bucket *b = &o->buckets[i];
        bill_exchange(bill, &p->place, (struct exchange){.axis = b->axis, .op = COMM_ALL_TO_ALL,
                                                         .count = code_bytes(&z->codec, b), .dtype = UINT8,
                                                         .when = BEHIND_BACKWARD, .packing = work_bytes(z, b)});
    }
    for (int i = 0; zero_coded_term(z, p, i, &term); i++) bill_saved(bill, term.piece.n * (int64_t)sizeof(float));
}

/* ---- running ---- */
/* Visit the elements of each param's shard in a bucket, except padding, and their residuals. */
typedef void visitor(float *x, float *residual, int64_t n);
static void each_shard(const struct zero_coded *z, const struct zero_buckets *o, const struct program *p,
                       const struct zero_bucket *b, float *x, visitor *visit) {
    for (int r = 0; r < b->n_ranks; r++)
        for (int i = b->first; i < b->first + b->n; i++) {
            const struct param *w = &p->params[o->params[i]];
            visit(x, z->residual[o->params[i]] + r * w->shard_n,
                  coded_own_count(type_n(&w->type), b->n_ranks, r));
            x += w->shard_n;
        }
}

/* Move the residual into x. If a bucket has two gradients of a param, only the first gets it; leave() adds both errors.
 */
static void take_along(float *x, float *residual, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += residual[i], residual[i] = 0;
}
static void leave(float *x, float *residual, int64_t n) {
    for (int64_t i = 0; i < n; i++) residual[i] += x[i];
}

enum status zero_coded_start(struct zero_coded *z, const struct zero_buckets *o, const struct program *p,
                             const struct zero_slot *s, const struct group *group) {
    const struct zero_bucket *b = &o->buckets[s->bucket];
    struct coded *c = &z->slot[s->bucket % ZERO_SLOTS];
    float *x = (float *)s->full;
    c->codec = z->codec, c->group = group, c->count = b->count * b->n_ranks;
    if (z->n_residuals) each_shard(z, o, p, b, x, take_along);
    TRY(coded_reduce_scatter_start(c, x));
    if (!z->n_residuals) return OK;
    coded_subtract_sent(c, x);
    each_shard(z, o, p, b, x, leave);
    return OK;
}

enum status zero_coded_wait(struct zero_coded *z, const struct zero_slot *s) {
    struct coded *c = &z->slot[s->bucket % ZERO_SLOTS];
    int64_t shard = c->count / group_size(c->group);
    TRY(coded_reduce_scatter_wait(c));
    memcpy(s->shard, c->x + group_rank(c->group) * shard, (size_t)shard * sizeof *c->x);
    return OK;
}
