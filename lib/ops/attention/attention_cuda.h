/* What the CUDA attention kernels share: where a head lies, which tile a block has, and the draws of dropout. Only
 * attention*_cuda.cu files include this. */
#ifndef TRIVIUM_OPS_ATTENTION_CUDA_H
#define TRIVIUM_OPS_ATTENTION_CUDA_H

#include "lib/ops/attention/attention.h"
#include "lib/ops/cuda.h"
#include "lib/ops/dropout.h"

/* What a kernel knows of its call, by value. */
struct attention {
    struct attention_sizes s;
    struct dropout dropout;
    const elem *q, *k, *v;                  /* of position 0 of head 0 of sample 0 */
    elem *dq, *dk, *dv;
    int shared_by;                          /* heads of queries that have the same keys */
    int packed;       /* D is a multiple of PACK: every position of every head starts at a multiple of 16 bytes */
    int add_queries, add_keys;              /* dq; dk and dv: += */
};

static inline struct attention attention_of(const struct call *call) {
    struct attention a = {attention_sizes(call), dropout_of(call)};
    int last = call->step->n_in - 1;
    int64_t width = a.s.J * a.s.D, to_k = last ? 0 : width;   /* with queries of their own, keys come first */
    a.q = (const elem *)call->in[0].data, a.dq = (elem *)call->din[0].data;
    a.k = (const elem *)call->in[last].data + to_k, a.v = a.k + width;
    a.dk = (elem *)call->din[last].data + to_k, a.dv = a.dk + width;
    a.shared_by = (int)(a.s.H / a.s.J);
    a.packed = a.s.D % PACK == 0;
    a.add_queries = accumulates(call, 0), a.add_keys = accumulates(call, last);
    return a;
}

/* One head of one sample: offsets of its position 0 in q and dq (position t: + t s.row), in k, v and their gradients
 * (+ t s.key_row), in y and dy (+ t y_row), in lse and delta (+ t). */
struct head { int64_t b, h, q, key, y, y_row, stat; };

__device__ static inline struct head head_of(const struct attention *a, int64_t i) {
    int64_t b = i / a->s.H, h = i % a->s.H, heads = a->s.H * a->s.D;
    struct head head = {b, h, b * a->s.T * a->s.row + h * a->s.D,
                        b * a->s.T * a->s.key_row + h / a->shared_by * a->s.D, b * a->s.T * heads + h * a->s.D, heads,
                        i * a->s.T};
    return head;
}

/* A block has one tile of one head; the tiles of a head follow each other, so that blocks that run at the same time
 * read the same keys and values. One with a tile of keys goes through all heads that share them. */
static inline unsigned tile_blocks(const struct attention *a, int tile) {
    return (unsigned)(a->s.B * a->s.H * ((a->s.T + tile - 1) / tile));
}
static inline unsigned key_tile_blocks(const struct attention *a, int tile) {
    return tile_blocks(a, tile) / (unsigned)a->shared_by;
}
__device__ static inline int64_t block_head(const struct attention *a, int tile) {
    return blockIdx.x / ((a->s.T + tile - 1) / tile);
}
/* First position of the block's tile, from the start of the sequence ... */
__device__ static inline int64_t block_tile(const struct attention *a, int tile) {
    return blockIdx.x % ((a->s.T + tile - 1) / tile) * tile;
}
/* ... or from its end: late queries have the most keys, and what takes longest should start first. */
__device__ static inline int64_t block_tile_from_end(const struct attention *a, int tile) {
    int64_t n = (a->s.T + tile - 1) / tile;
    return (n - 1 - blockIdx.x % n) * tile;
}

/* m[t, j .. j+3], j a multiple of 4: one Philox block. Ones when dropout is off. */
__device__ static inline void draw_four(real m[4], const struct attention *a, const struct head *head, int64_t t,
                                        int64_t j) {
    if (!a->dropout.on) {
        m[0] = m[1] = m[2] = m[3] = 1;
        return;
    }
    struct philox_counter c = {{(uint32_t)(j / 4), (uint32_t)t, (uint32_t)(a->s.first_head + head->h),
                                (uint32_t)(a->dropout.first_sample + head->b)}};
    c = philox(c, a->dropout.key);
    for (int i = 0; i < 4; i++) m[i] = c.v[i] >= a->dropout.threshold ? (real)a->dropout.scale : 0;
}

/* The blocked kernels, for the element types that they are for (attention_flash_*_cuda.cu). */
extern "C" {
kernel CUDA(attention_flash_forward); /* @errors E_DEVICE */
/** delta (B,H,T): dy[t] . y[t]. @errors E_DEVICE */
enum status CUDA(attention_flash_backward)(const struct call *, const real *delta);
}

#endif
