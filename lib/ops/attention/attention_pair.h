/* A pair of queries and keys, the work of one call of the blocked attention kernels. Attention over a whole sequence is
 * one pair. If a sequence is sharded (cp/), a rank's queries make a pair with the keys of each rank in turn, and the
 * running softmax merges the results:
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

/* Vectors of D elements. The vector of position t of head h of sample b is sample b + row t + D (h / shared_by)
 * elements after `at`. */
struct attention_vectors { void *at; int64_t sample, row, shared_by; };

/* A bias by relative position (attention_bias.h). rows: elements (R,H), NULL: no bias. gradient: is added to. Reals in
 * scratch: by_distance (H, Tq + Tk - 1); found (B, H, Tq + Tk - 1), the gradient by distance, NULL in forward. */
struct attention_table {
    const void *rows;
    struct tensor gradient;
    bool both_sides;
    void *by_distance, *found;
};

/* A learned score (H) of each head, of a key that has value 0 and that all queries see. logits: elements, NULL: none.
 * A query meets it once: in a sharded sequence with its own rank's keys. gradient: is added to. */
struct attention_sinks { const void *logits; struct tensor gradient; };

struct attention_pair {
    int64_t B, H, D, Tq, Tk;
    int64_t shared_by;                       /* neighboring heads that share the same keys and values */
    double scale;                            /* factor of the scores: 1 / sqrt(D) */
    enum dtype dtype;                        /* the elements' */
    enum attention_core core;                /* on CUDA: cuDNN's or our own kernels */
    bool causal;                            /* Tq = Tk, the same positions: query i sees keys 0 .. i. false: all keys */
    struct attention_view view;              /* hides some of these keys */
    struct dropout dropout;
    struct axis queries, keys;               /* positions in the whole sequence, for the window and for dropout */
    int64_t first_head;
    struct attention_vectors q, k, v, y;     /* elements; forward writes y, backward reads it */
    struct attention_vectors dy, dq, dk, dv;
    void *lse;                               /* reals: query t of head h of sample b at lse_row (b H + h) + t */
    int64_t lse_row;
    bool sums;                               /* dq, dk, dv are in real, and the kernel adds to them */
    bool add_queries, add_keys;              /* dq, or dk and dv, are in elements, and the kernel adds to them */
    int n_threads;
    const struct device *device;
    struct attention_table table;            /* only on the CPU */
    struct attention_sinks sinks;
    void *work;                              /* attention_pair_reals for each thread */
    void (*between)(void);                   /* the first thread calls it after each of its heads; NULL: no call */
};

/* ---- which of the pair's keys a query sees: from attention_first_key to before attention_end_of_keys ---- */

/** The number of local elements whose place is before `place`; at most n. */
RNG_INLINE int64_t attention_places_before(const struct axis *a, int64_t n, int64_t place) {
    int64_t first = place - a->first, second = first - a->jump;      /* in the first run, and in the second */
    int64_t i = first < a->turn ? first : second > a->turn ? second : a->turn;
    return i < 0 ? 0 : i < n ? i : n;
}
RNG_INLINE int64_t attention_place(const struct axis *a, int64_t i) {
    return a->first + i + (i >= a->turn ? a->jump : 0);
}
/** The first key that query t sees, and the end of its keys. Both grow with t; if they are equal, it sees no key. */
RNG_INLINE int64_t attention_first_key(const struct attention_pair *p, int64_t t) {
    if (p->view.window == 0) return 0;
    return attention_places_before(&p->keys, p->Tk, attention_place(&p->queries, t) - p->view.window + 1);
}
RNG_INLINE int64_t attention_end_of_keys(const struct attention_pair *p, int64_t t) {
    return p->causal && t + 1 < p->Tk ? t + 1 : p->Tk;
}
/** The end of the queries that see key j or an earlier one. */
RNG_INLINE int64_t attention_end_of_queries(const struct attention_pair *p, int64_t j) {
    if (p->view.window == 0) return p->Tq;
    return attention_places_before(&p->queries, p->Tq, attention_place(&p->keys, j) + p->view.window);
}

/* The most kinds of pairs in one op (op.pairs): with the rank's own keys, with earlier keys, with later keys. */
enum { ATTENTION_PAIRS = 3 };

/* A device's kernels for an element type. On a GPU a call queues the kernel. @errors E_DEVICE, all of them. */
typedef enum status attention_pair_kernel(const struct attention_pair *);
/** Reals of scratch that a thread needs for a pair of these sizes. */
typedef int64_t attention_pair_counter(const struct attention_pair *, bool backward);

/* Merges pairs of the same queries. y (B,T,H,D) and lse (B,H,T) are the merged results so far, dense reals. y_pair
 * (elements) and lse_pair are one pair's, in the same order, and valid for queries from `first` on. */
struct attention_merge {
    int64_t B, T, H, D, first;
    void *y, *lse;
    void *y_pair, *lse_pair;
    int n_threads;
    const struct device *device;
};
typedef enum status attention_merge_kernel(const struct attention_merge *);
typedef enum status attention_merge_end_kernel(const struct attention_merge *, void *y, void *lse);

/* Vectors of `width` elements, and a dense copy of them. */
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
    attention_merge_kernel *merge_begin;     /* start without a pair */
    attention_merge_kernel *merge;           /* add one pair */
    attention_merge_end_kernel *merge_end;   /* all pairs: y (B,T,H,D) elements, lse (B,H,T) reals */
    attention_pack_kernel *pack;             /* dense (B,T,width) = vectors */
    attention_unpack_kernel *unpack;         /* vectors of elements = or += dense reals */
};
/** Reals of scratch of a pair for each thread, also for a device for which this build has no kernels. */
int64_t attention_pair_reals(enum device_kind, enum dtype, const struct attention_pair *, bool backward);
/** @return NULL: this build has no kernels for the device */
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
