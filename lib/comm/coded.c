#include "lib/comm/coded.h"

#include "lib/base/integer.h"
#include <string.h>

int64_t coded_part(int64_t count, int n_ranks) { return ceil_div(count, n_ranks); }

int64_t coded_wire_bytes(const struct codec *codec, int64_t count, int n_ranks) {
    return n_ranks * codec_bytes(codec, coded_part(count, n_ranks));
}

int64_t coded_first(int64_t count, int n_ranks, int rank) {
    return min64(rank * coded_part(count, n_ranks), count);
}

int64_t coded_own_count(int64_t count, int n_ranks, int rank) {
    return coded_first(count, n_ranks, rank + 1) - coded_first(count, n_ranks, rank);
}

/* The part of one rank: its first element, its number of elements, and the bytes of its code within `sent`. */
struct part { int64_t first, n, slot, slot_bytes; };
static struct part part_of(const struct coded *c, int rank) {
    int n = group_size(c->group);
    int64_t bytes = codec_bytes(&c->codec, coded_part(c->count, n));
    return (struct part){coded_first(c->count, n, rank), coded_own_count(c->count, n, rank), rank * bytes, bytes};
}

void coded_forget(struct coded *c, int64_t first, int64_t n) {
    const struct part own = part_of(c, group_rank(c->group));
    int64_t begin = max64(first, own.first), end = min64(first + n, own.first + own.n);
    if (!c->residual) return;
    memset(c->residual + first, 0, (size_t)n * sizeof(float));
    if (begin < end) memset(c->sum_residual + begin - own.first, 0, (size_t)(end - begin) * sizeof(float));
}

/* Encode x (n of the part) plus its residual `left`; the new rounding error becomes the residual. A short part's code
 * is padded with zeros, which are sent, too. */
static void encode(const struct coded *c, const struct part *p, const float *x, float *left) {
    unsigned char *code = c->sent + p->slot;
    int64_t used = codec_bytes(&c->codec, p->n);
    for (int64_t i = 0; left && i < p->n; i++) left[i] += x[i];
    codec_encode(&c->codec, left ? left : x, p->n, code);
    if (left) codec_decode(&c->codec, code, p->n, left, CODEC_SUBTRACT);
    memset(code + used, 0, (size_t)(p->slot_bytes - used));
}

enum status coded_reduce_scatter_start(struct coded *c, float *x) {
    c->x = x;
    for (int r = 0; r < group_size(c->group); r++) {
        const struct part p = part_of(c, r);
        encode(c, &p, x + p.first, c->residual ? c->residual + p.first : NULL);
    }
    return comm_all_to_all_start(c->group, c->sent, c->got, part_of(c, 0).slot_bytes, UINT8, &c->request);
}

void coded_subtract_sent(const struct coded *c, float *x) {
    for (int r = 0; r < group_size(c->group); r++) {
        const struct part p = part_of(c, r);
        codec_decode(&c->codec, c->sent + p.slot, p.n, x + p.first, CODEC_SUBTRACT);
    }
}

enum status coded_reduce_scatter_wait(struct coded *c) {
    const struct part own = part_of(c, group_rank(c->group));
    TRY(comm_wait(&c->request));
    for (int r = 0; r < group_size(c->group); r++)
        codec_decode(&c->codec, c->got + r * own.slot_bytes, own.n, c->x + own.first, r ? CODEC_ADD : CODEC_SET);
    return OK;
}

enum status coded_all_gather_start(struct coded *c) {
    const struct part own = part_of(c, group_rank(c->group));
    encode(c, &own, c->x + own.first, c->sum_residual);
    return comm_all_gather_start(c->group, c->sent + own.slot, c->got, own.slot_bytes, UINT8, &c->request);
}

enum status coded_all_gather_wait(struct coded *c) {
    TRY(comm_wait(&c->request));
    for (int r = 0; r < group_size(c->group); r++) {
        const struct part p = part_of(c, r);
        codec_decode(&c->codec, c->got + p.slot, p.n, c->x + p.first, CODEC_SET);
    }
    return OK;
}
