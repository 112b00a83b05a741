/* Queries and keys that meet: what the kernels of blocked attention work on. Attention over a whole sequence is one
 * pair. Where a sequence is sharded (cp/), a rank's queries meet the keys of one rank after the other, each time as a
 * pair; what comes out is put together by the running softmax:
 *
 *   y_s, lse_s of each pair     lse = log sum_s e^lse_s     y = sum_s e^(lse_s - lse) y_s
 *
 * Backward of a pair needs lse and y of all keys together; the gradients of queries and keys are sums over pairs. */
#ifndef TRIVIUM_OPS_ATTENTION_PAIR_H
#define TRIVIUM_OPS_ATTENTION_PAIR_H

#include "lib/ops/dropout.h"

/* Vectors of D elements: that of position t of head h of sample b is at + sample b + row t + D (h / shared_by), in
 * elements. */
struct attention_vectors { void *at; int64_t sample, row, shared_by; };

struct attention_pair {
    int64_t B, H, D, Tq, Tk;
    int64_t shared_by;                       /* heads that have the same keys and values, one after the other */
    double scale;                            /* 1 / sqrt(D) */
    bool causal;                             /* Tq = Tk, the same places: query i sees keys 0 .. i. Else all */
    /* For dropout, whose draws go by places in the whole sequence. */
    struct dropout dropout;
    struct axis queries, keys;
    int64_t first_head;
    struct attention_vectors q, k, v, y;     /* of the element's type; y is written by forward, read by backward */
    struct attention_vectors dy, dq, dk, dv;
    void *lse;                               /* reals: query t of head h of sample b at lse_row (b H + h) + t */
    int64_t lse_row;
    bool sums;                               /* dq, dk, dv are reals, and added to */
    bool add_queries, add_keys;              /* dq; dk and dv: they are elements, and added to */
    int n_threads;
    void *work;                              /* attention_pair_reals for each thread */
    void (*between)(void);                   /* the first thread calls it after each of its heads; NULL: nobody does */
};

/** y and lse of the pair. @collective{none} */
typedef void attention_pair_kernel(const struct attention_pair *);
attention_pair_kernel attention_pair_forward_cpu_fp64, attention_pair_forward_cpu_fp32, attention_pair_forward_cpu_bf16,
    attention_pair_forward_cpu_fp16;
/** dq, dk, dv of the pair, from lse and y over all keys. @collective{none} */
attention_pair_kernel attention_pair_backward_cpu_fp64, attention_pair_backward_cpu_fp32,
    attention_pair_backward_cpu_bf16, attention_pair_backward_cpu_fp16;
/** Scratch of a thread. */
typedef int64_t attention_pair_reals(int64_t Tq, int64_t Tk, int64_t D, int64_t shared_by, bool backward);
attention_pair_reals attention_pair_reals_cpu_fp64, attention_pair_reals_cpu_fp32, attention_pair_reals_cpu_bf16,
    attention_pair_reals_cpu_fp16;

/* Several pairs of the same queries: sums of y and lse as reals, dense (B,T,H,D) and (B,H,T); and what one pair found,
 * for queries from `first` on, where they lie in the same order: y as elements. */
struct attention_merge {
    int64_t B, T, H, D, first;
    void *y, *lse;
    void *y_pair, *lse_pair;
    int n_threads;
};
/** No pair yet; one more pair. */
typedef void attention_merge_kernel(const struct attention_merge *);
attention_merge_kernel attention_merge_begin_cpu_fp64, attention_merge_begin_cpu_fp32, attention_merge_begin_cpu_bf16,
    attention_merge_begin_cpu_fp16, attention_merge_cpu_fp64, attention_merge_cpu_fp32, attention_merge_cpu_bf16,
    attention_merge_cpu_fp16;
/** All pairs: y (B,T,H,D) elements, lse (B,H,T) reals. */
typedef void attention_merge_end_kernel(const struct attention_merge *, void *y, void *lse);
attention_merge_end_kernel attention_merge_end_cpu_fp64, attention_merge_end_cpu_fp32, attention_merge_end_cpu_bf16,
    attention_merge_end_cpu_fp16;
/** to (B,T,width) = vectors of `width` elements; and reals (B,T,width) to such vectors, = or +=. */
typedef void attention_pack_kernel(const struct attention_vectors *, int64_t B, int64_t T, int64_t width, void *to);
typedef void attention_unpack_kernel(const void *from, int64_t B, int64_t T, int64_t width,
                                     const struct attention_vectors *, bool add);
attention_pack_kernel attention_pack_cpu_fp64, attention_pack_cpu_fp32, attention_pack_cpu_bf16,
    attention_pack_cpu_fp16;
attention_unpack_kernel attention_unpack_cpu_fp64, attention_unpack_cpu_fp32, attention_unpack_cpu_bf16,
    attention_unpack_cpu_fp16;

/** By element type. */
struct attention_pair_kernels {
    attention_pair_kernel *forward, *backward;
    attention_pair_reals *reals;
    attention_merge_kernel *merge_begin, *merge;
    attention_merge_end_kernel *merge_end;
    attention_pack_kernel *pack;
    attention_unpack_kernel *unpack;
};
const struct attention_pair_kernels *attention_pair_cpu(enum dtype);


/** The pair of a call of attention whose keys are those of its queries' places. */
struct attention_pair attention_pair_of(const struct call *);

#endif
