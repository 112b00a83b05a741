/* Queries and keys that meet: what the kernels of blocked attention work on. Attention over a whole sequence is one
 * pair. Where a sequence is sharded (cp/), a rank's queries meet the keys of one rank after the other, each time as a
 * pair; what comes out is put together by the running softmax:
 *
 *   y_s, lse_s of each pair     lse = log sum_s e^lse_s     y = sum_s e^(lse_s - lse) y_s
 *
 * Backward of a pair needs lse and y of all keys together; the gradients of queries and keys are sums over pairs. */
#pragma once

#include "lib/device/dtype.h"
#include "lib/device/tensor.h"
#include "lib/ops/dropout.h"
#include "lib/ops/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Vectors of D elements: that of position t of head h of sample b is at + sample b + row t + D (h / shared_by), in
 * elements. */
struct attention_vectors { void *at; int64_t sample, row, shared_by; };

/* A bias by relative position (attention_bias.h): its rows, elements (R,H), NULL: there is none; its gradient, to be
 * added to; and in scratch, reals, the same by distance (H, Tq + Tk - 1), and what is found of its gradient (B, H,
 * Tq + Tk - 1), NULL in forward. */
struct attention_table {
    const void *rows;
    struct tensor gradient;
    bool both_sides;
    void *by_distance, *found;
};

struct attention_pair {
    int64_t B, H, D, Tq, Tk;
    int64_t shared_by;                       /* heads that have the same keys and values, one after the other */
    double scale;                            /* of the scores: 1 / sqrt(D) */
    enum dtype dtype;                        /* the elements' */
    enum attention_core core;                /* on CUDA: whose kernels */
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
    const struct device *device;
    struct attention_table table;            /* on the CPU alone */
    void *work;                              /* attention_pair_reals for each thread */
    void (*between)(void);                   /* the first thread calls it after each of its heads; NULL: no call */
};

/* Kinds of pairs that one op may have, at most (op.pairs): with its own keys, those before and those after them. */
enum { ATTENTION_PAIRS = 3 };

/* Kernels of a device for an element type. On a GPU they are queued: @errors E_DEVICE, all of them. */
typedef enum status attention_pair_kernel(const struct attention_pair *);
/** Scratch of a thread, for the pair's sizes. */
typedef int64_t attention_pair_counter(const struct attention_pair *, bool backward);

/* Several pairs of the same queries: sums of y and lse as reals, dense (B,T,H,D) and (B,H,T); and what one pair found,
 * for queries from `first` on, where they lie in the same order: y as elements. */
struct attention_merge {
    int64_t B, T, H, D, first;
    void *y, *lse;
    void *y_pair, *lse_pair;
    int n_threads;
    const struct device *device;
};
typedef enum status attention_merge_kernel(const struct attention_merge *);
typedef enum status attention_merge_end_kernel(const struct attention_merge *, void *y, void *lse);

/* Vectors of `width` elements, and the same dense. */
struct attention_copy {
    struct attention_vectors vectors;
    void *dense;
    int64_t B, T, width;
    const struct device *device;
};
typedef enum status attention_pack_kernel(const struct attention_copy *);
typedef enum status attention_unpack_kernel(const struct attention_copy *, bool add);

struct attention_pair_kernels {
    attention_pair_kernel *forward;          /* y and lse of the pair */
    attention_pair_kernel *backward;         /* dq, dk, dv of the pair, from lse and y over all keys */
    attention_merge_kernel *merge_begin;     /* no pair yet */
    attention_merge_kernel *merge;           /* one more pair */
    attention_merge_end_kernel *merge_end;   /* all pairs: y (B,T,H,D) elements, lse (B,H,T) reals */
    attention_pack_kernel *pack;             /* dense (B,T,width) = vectors */
    attention_unpack_kernel *unpack;         /* vectors of elements = or += dense reals */
};
/** Scratch of a pair, in reals, for each thread; also for a device that this build has no kernels for. */
int64_t attention_pair_reals(enum device_kind, enum dtype, const struct attention_pair *, bool backward);
/** @return NULL: this build has none for the device */
const struct attention_pair_kernels *attention_pair_kernels(enum device_kind, enum dtype);

#define ATTENTION_PAIR_KERNELS_OF(suffix)                                                                              \
    {attention_pair_forward_##suffix, attention_pair_backward_##suffix,                                                \
     attention_merge_begin_##suffix, attention_merge_##suffix, attention_merge_end_##suffix, attention_pack_##suffix,  \
     attention_unpack_##suffix}
#define DECLARE_ATTENTION_PAIR_KERNELS_OF(suffix)                                                                      \
    attention_pair_kernel attention_pair_forward_##suffix, attention_pair_backward_##suffix;                           \
    attention_merge_kernel attention_merge_begin_##suffix, attention_merge_##suffix;                                   \
    attention_merge_end_kernel attention_merge_end_##suffix;                                                           \
    attention_pack_kernel attention_pack_##suffix;                                                                     \
    attention_unpack_kernel attention_unpack_##suffix
#define DECLARE_ATTENTION_PAIR_KERNELS(device)                                                                         \
    DECLARE_ATTENTION_PAIR_KERNELS_OF(device##_fp64);                                                                  \
    DECLARE_ATTENTION_PAIR_KERNELS_OF(device##_fp32);                                                                  \
    DECLARE_ATTENTION_PAIR_KERNELS_OF(device##_bf16);                                                                  \
    DECLARE_ATTENTION_PAIR_KERNELS_OF(device##_fp16)
/** The pair of a call of attention whose keys are those of its queries' places. */
struct attention_pair attention_pair_of(const struct call *);

#ifdef __cplusplus
}
#endif
