/* Functions that the CUDA attention kernels share: a head's addresses, a block's tile, and the draws of dropout. Only
 * attention*_cuda.cu files include this. */
#pragma once

#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/cuda.h"
#include "lib/ops/dropout.h"

/* A kernel's arguments, by value. */
struct attention {
    struct attention_pair p;
    const real *delta;                      /* (B,H,Tq): dy[t] . y[t], for backward */
    int packed;       /* D is a multiple of PACK: every position of every head starts at a multiple of 16 bytes */
    int blocks_of_4;  /* keys 4i .. 4i + 3 draw from one Philox block, from its first word on */
    real per_cap;     /* 1 / the cap of scores; 0: none */
};

static inline int by_4(const struct axis *a) { return a->first % 4 == 0 && (!a->jump || (a->turn | a->jump) % 4 == 0); }

static inline struct attention attention_of_pair(const struct attention_pair *p, const real *delta) {
    real per_cap = p->view.cap > 0 ? (real)(1 / p->view.cap) : 0;
    struct attention a = {*p, delta, p->D % PACK == 0, by_4(&p->keys), per_cap};
    return a;
}
static inline void *pair_stream(const struct attention_pair *p) { return p->device->stream; }

/* One head of one sample: addresses of its vectors at position 0; indices for gradients, which are elements or
 * reals. */
struct head { int64_t b, h; const elem *q, *k, *v, *dy; elem *y; real *lse; const real *delta; int64_t dq, dk, dv; };

__device__ static inline int64_t offset_of(const struct attention_vectors &v, int64_t b, int64_t h, int64_t D) {
    return b * v.sample + h / v.shared_by * D;
}

__device__ static inline struct head head_of(const struct attention *a, int64_t i) {
    const struct attention_pair &p = a->p;
    int64_t b = i / p.H, h = i % p.H, D = p.D;
    struct head head = {b, h, (const elem *)p.q.at + offset_of(p.q, b, h, D),
                        (const elem *)p.k.at + offset_of(p.k, b, h, D), (const elem *)p.v.at + offset_of(p.v, b, h, D),
                        (const elem *)p.dy.at + offset_of(p.dy, b, h, D), (elem *)p.y.at + offset_of(p.y, b, h, D),
                        (real *)p.lse + i * p.lse_row, a->delta + i * p.Tq, offset_of(p.dq, b, h, D),
                        offset_of(p.dk, b, h, D), offset_of(p.dv, b, h, D)};
    return head;
}

/* ---- the mask, and the view: window, cap and sinks ----
 * Code for a view takes registers, also from a pair that has none. So kernels are compiled twice. In the VIEW form they
 * read the pair's view; the other form has no code for it. */

/* Has the pair a view? A window that hides none of its keys is none. */
static inline bool has_view(const struct attention *a) {
    return attention_first_key(&a->p, a->p.Tq - 1) > 0 || a->p.view.cap > 0 || a->p.sinks.logits;
}
/* Runs launch<SIZE, VIEW>(...). */
#define FOR_VIEW(a, launch, SIZE, ...)                                                                                 \
    (has_view(a) ? launch<SIZE, true>(__VA_ARGS__) : launch<SIZE, false>(__VA_ARGS__))

template <bool VIEW> __device__ static inline bool sees(const struct attention *a, int64_t t, int64_t j) {
    return j < a->p.Tk && (!a->p.causal || j <= t) && (!VIEW || j >= attention_first_key(&a->p, t));
}
/* The keys that query t sees in the tile at j0, of n keys: from `from` to before `to`, at most n. */
struct seen { int from, to; };
template <bool VIEW> __device__ static inline bool is_seen(const struct seen &seen, int j) {
    return j < seen.to && (!VIEW || j >= seen.from);
}
template <bool VIEW>
__device__ static inline struct seen seen_of_tile(const struct attention *a, int64_t t, int64_t j0, int n) {
    int64_t from = VIEW ? attention_first_key(&a->p, t) - j0 : 0, to = attention_end_of_keys(&a->p, t) - j0;
    struct seen seen = {from > n ? n : (int)from, to < n ? (int)to : n};
    return seen;
}
/* The tiles of `tile` keys that queries from t0 to before t_end see, and the tiles of queries that see a tile of
 * keys. */
template <bool VIEW> __device__ static inline int64_t first_key(const struct attention *a, int64_t t0, int tile) {
    return VIEW ? attention_first_key(&a->p, t0) / tile * tile : 0;
}
__device__ static inline int64_t end_of_keys(const struct attention *a, int64_t t_end) {
    return a->p.causal && t_end < a->p.Tk ? t_end : a->p.Tk;
}
__device__ static inline int64_t first_query(const struct attention *a, int64_t j0) { return a->p.causal ? j0 : 0; }
template <bool VIEW> __device__ static inline int64_t end_of_queries(const struct attention *a, int64_t j0, int tile) {
    int64_t end = j0 + tile < a->p.Tk ? j0 + tile : a->p.Tk;
    return VIEW ? attention_end_of_queries(&a->p, end - 1) : a->p.Tq;
}

/* The head's sink; -infinity: none. */
template <bool VIEW> __device__ static inline real sink_of(const struct attention *a, const struct head *head) {
    return VIEW && a->p.sinks.logits ? load(((const elem *)a->p.sinks.logits)[head->h]) : -(real)INFINITY;
}

/* A score with its cap, and the factor of its gradient, from the capped score. */
template <bool VIEW> __device__ static inline real capped(const struct attention *a, real s) {
    return VIEW && a->per_cap > 0 ? (real)a->p.view.cap * tanh(s * a->per_cap) : s;
}
template <bool VIEW> __device__ static inline real cap_slope(const struct attention *a, real s) {
    return VIEW ? 1 - s * a->per_cap * (s * a->per_cap) : (real)1;
}
/* What exponents are relative to, under a maximum of scores: a query that has seen no key has maximum -infinity, and is
 * relative to 0. Only a window leaves such a query. And 1 / the sum of its exponentials, 0 if there are none. */
template <bool VIEW> __device__ static inline real base_of(real max) {
    return VIEW && max == -(real)INFINITY ? (real)0 : max;
}
template <bool VIEW> __device__ static inline real one_over(real sum) { return !VIEW || sum > 0 ? 1 / sum : (real)0; }

/* gradient[i] = value or += value; a gradient in real is a sum. */
__device__ static inline void put_gradient(const struct attention *a, void *gradient, int64_t i, real value, int add) {
    if (a->p.sums) ((real *)gradient)[i] += value;
    else put((elem *)gradient + i, value, add);
}

/* A block has one tile of one head; the tiles of a head follow each other, so that blocks that run at the same time
 * read the same keys and values. T counts queries, or keys, in which case a block loops over all heads that share the
 * keys. */
static inline int64_t tiles_of(int64_t T, int tile) { return (T + tile - 1) / tile; }
static inline unsigned query_blocks(const struct attention *a, int tile) {
    return (unsigned)(a->p.B * a->p.H * tiles_of(a->p.Tq, tile));
}
static inline unsigned key_blocks(const struct attention *a, int tile) {
    return (unsigned)(a->p.B * a->p.H / a->p.shared_by * tiles_of(a->p.Tk, tile));
}
__device__ static inline int64_t block_head(int64_t T, int tile) { return blockIdx.x / ((T + tile - 1) / tile); }
/* The first position of the block's tile, with tiles counted from the start of the sequence. */
__device__ static inline int64_t block_tile(int64_t T, int tile) { return blockIdx.x % ((T + tile - 1) / tile) * tile; }
/* The same, counted from the end: late queries have the most keys, and the longest work should start first. */
__device__ static inline int64_t block_tile_from_end(int64_t T, int tile) {
    int64_t n = (T + tile - 1) / tile;
    return (n - 1 - blockIdx.x % n) * tile;
}

/* Read or set register i of four. An array with a variable index would be in memory, not in registers. */
__device__ static inline uint32_t word_of(const struct philox_counter &c, int i) {
    return i == 0 ? c.v[0] : i == 1 ? c.v[1] : i == 2 ? c.v[2] : c.v[3];
}
__device__ static inline void set_of_four(real m[4], int i, real value) {
#pragma unroll
    for (int k = 0; k < 4; k++) m[k] = k == i ? value : m[k];
}

/* m[t, j .. j+3], j a multiple of 4, from one Philox block, or from words of several. All are 1 when dropout is off. */
__device__ static inline void draw_four(real m[4], const struct attention *a, const struct head *head, int64_t t,
                                        int64_t j) {
    const struct dropout &d = a->p.dropout;
    m[0] = m[1] = m[2] = m[3] = 1;
    if (!d.on) return;
    struct philox_counter place = {{0, (uint32_t)attention_place(&a->p.queries, t),
                                    (uint32_t)(a->p.first_head + head->h), (uint32_t)(d.first_sample + head->b)}};
#pragma unroll 1
    for (int i = 0; i < 4; i += a->blocks_of_4 ? 4 : 1) {
        int64_t key = attention_place(&a->p.keys, j + i);
        place.v[0] = (uint32_t)(key / 4);
        struct philox_counter c = philox(place, d.key);
        if (!a->blocks_of_4) set_of_four(m, i, word_of(c, (int)(key % 4)) >= d.threshold ? (real)d.scale : 0);
        else
#pragma unroll
            for (int l = 0; l < 4; l++) m[l] = c.v[l] >= d.threshold ? (real)d.scale : 0;
    }
}

/* The blocked kernels of a pair; attention_flash_*_cuda.cu define them, each file for its element types. */
extern "C" {
/** y and lse of the pair. @errors E_DEVICE */
enum status CUDA(attention_flash_forward)(const struct attention *);
/** The pair's gradients, from lse and delta. @errors E_DEVICE */
enum status CUDA(attention_flash_backward)(const struct attention *);
}
