/* Softmax cross-entropy over the vocabulary:
 *
 *   lse[r] = log sum_k e^x[r,k]       loss = loss_weight sum_r (lse[r] - x[r, target[r]])
 *   dx[r,k] = loss_weight loss_scale (e^(x[r,k] - lse[r]) - [k = target[r]])
 *
 * in[0] logits (B,T,V)   in[1] targets int32 (B,T)   out[0] loss (1) and out[1] lse (B,T), in the accumulator's dtype
 *
 * In training forward does nothing, and backward_input makes the loss, too (op.h, all_in_backward): then a GPU reads
 * the logits once, and writes their gradient over them. In evaluation forward makes the loss.
 *
 * Rows with a negative target count nothing (padding of evaluation batches). Columns at or beyond the global vocabulary
 * are padding: they are left out of the sum, and their gradient is zero. The op itself needs the whole vocabulary in
 * one place; over shards of it, tp/ runs the same pieces with a maximum and a sum over the ranks in between. They are
 * below.
 *
 * A target at or beyond the global vocabulary is refused on the CPU (E_DATA). A GPU's host has gone on by then: there
 * such a row makes the loss NaN, reads nothing out of bounds, and the step is refused for its loss. */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_cross_entropy;

/** Rows of logits over one shard of the vocabulary. */
struct vocab_rows {
    const void *logits;        /* (n_rows, vocab.n), in the dtype that the pieces were asked for */
    const int32_t *target;     /* (n_rows), global token ids; negative: ignored */
    int64_t n_rows;
    struct axis vocab;
};

/** The passes over a shard, on the device of the pieces; all data are in its memory, and work is issued in order on its
 *  compute stream. Arrays have one element a row, in the accumulator's dtype of the logits.
 *  @errors E_DEVICE */
struct cross_entropy_pieces {
    /** max[r] = max_k x[r,k], k in this shard; -infinity if it is all padding.
     *  @errors E_DATA, on the CPU: a target at or beyond the global vocabulary */
    enum status (*row_max)(const struct device *, const struct vocab_rows *, void *max);
    /** sum[r] = sum_k e^(x[r,k] - max[r]), by the leaves of the axis if it has some (on the CPU); hit[r] =
     *  x[r, target[r]] if that column is in this shard, else 0. */
    enum status (*row_sum)(const struct device *, const struct vocab_rows *, const void *max, void *sum, void *hit);
    /** lse[r] = max[r] + log sum[r]; *loss_out = scale sum_r (lse[r] - hit[r]) over the rows that count, one element of
     *  the accumulator's dtype; summed in double. lse may be max. */
    enum status (*loss)(const struct device *, const struct vocab_rows *, const void *max, const void *sum,
                        const void *hit, void *lse, double scale, void *loss_out);
    /** dlogits[r,k] = or += scale (e^(x[r,k] - lse[r]) - [k = target[r]]). dlogits may be the logits themselves, unless
     *  it accumulates. */
    enum status (*gradient)(const struct device *, const struct vocab_rows *, const void *lse, double scale,
                            bool accumulate, void *dlogits);
};

/** The pieces for logits of this dtype on this kind of device. NULL: the dtype is an integer type, or this build does
 *  not support the device. Static. */
const struct cross_entropy_pieces *cross_entropy_pieces(enum device_kind, enum dtype);

/** Targets in host memory. @errors E_DATA naming a target at or beyond the global vocabulary */
enum status cross_entropy_check_targets(const struct vocab_rows *);

#ifdef __cplusplus
}
#endif
