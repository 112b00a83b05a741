/* Softmax cross-entropy over the vocabulary:
 *
 *   lse[r] = log sum_k e^x[r,k]       loss = loss_weight sum_r (lse[r] - x[r, target[r]])
 *   dx[r,k] = loss_weight loss_scale (e^(x[r,k] - lse[r]) - [k = target[r]])
 *
 * in[0] logits (B,T,V)   in[1] targets int32 (B,T)   out[0] loss (1) and out[1] lse (B,T), in the accumulator's dtype
 *
 * In training forward does nothing, and backward_input also computes the loss (op.h, all_in_backward). So a GPU reads
 * the logits once, and writes their gradient over them. In evaluation forward computes the loss.
 *
 * Rows with a negative target (padding of evaluation batches) do not count. Columns at or beyond the global vocabulary
 * are padding: they are left out of the sum, and their gradient is zero. The op itself needs the whole vocabulary on
 * one rank. Over shards of the vocabulary, tp/ runs the passes below (struct cross_entropy_pieces), with an all-reduce
 * between them.
 *
 * The CPU refuses a target at or beyond the global vocabulary (E_DATA). A GPU cannot, because its host does not wait
 * for the kernel: such a row reads nothing out of bounds and makes the loss NaN, and the run then refuses the step. */
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

/** The passes over a shard on one kind of device. All data are in device memory; work is issued in order on the compute
 *  stream. max, sum, hit and lse have one element per row, in the accumulator's dtype of the logits.
 *  @errors E_DEVICE */
struct cross_entropy_pieces {
    /** max[r] = max_k x[r,k] over columns k of this shard; -infinity if the shard is all padding.
     *  @errors E_DATA, on the CPU: a target at or beyond the global vocabulary */
    enum status (*row_max)(const struct device *, const struct vocab_rows *, void *max);
    /** sum[r] = sum_k e^(x[r,k] - max[r]), on the CPU by the leaves of the axis, if it has any. hit[r] = x[r,
     *  target[r]] if that column is in this shard, else 0. */
    enum status (*row_sum)(const struct device *, const struct vocab_rows *, const void *max, void *sum, void *hit);
    /** lse[r] = max[r] + log sum[r]. *loss_out = scale sum_r (lse[r] - hit[r]) over rows with a target >= 0, summed in
     *  double, one element of the accumulator's dtype. lse may be max. */
    enum status (*loss)(const struct device *, const struct vocab_rows *, const void *max, const void *sum,
                        const void *hit, void *lse, double scale, void *loss_out);
    /** dlogits[r,k] = or, if accumulate, += scale (e^(x[r,k] - lse[r]) - [k = target[r]]). Without accumulate, dlogits
     *  may be the logits themselves. */
    enum status (*gradient)(const struct device *, const struct vocab_rows *, const void *lse, double scale,
                            bool accumulate, void *dlogits);
};

/** The pieces for logits of this dtype on this kind of device. NULL: the dtype is an integer type, or this build does
 *  not support the device. Static. */
const struct cross_entropy_pieces *cross_entropy_pieces(enum device_kind, enum dtype);

/** Check targets in host memory. @errors E_DATA naming a target at or beyond the global vocabulary */
enum status cross_entropy_check_targets(const struct vocab_rows *);

#ifdef __cplusplus
}
#endif
