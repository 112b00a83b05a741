/* The head and its loss in one op: softmax cross-entropy of x W^T + b, by chunks of tokens, so that the logits of all
 * tokens never exist at once.
 *
 *   logits[r,k] = sum_c x[r,c] W[k,c] + b[k]     loss = loss_weight sum_r (lse[r] - logits[r, target[r]])
 *   dx = dlogits W     dW += dlogits^T x     db += sum of the rows of dlogits        (lse, dlogits: cross_entropy.h)
 *
 * in[0] x (B,T,C)   in[1] targets int32 (B,T)   weight[0] W (V,C)   weight[1] b (V), optional
 * out[0] loss (1), in the accumulator's dtype
 * head.rows    tokens of a chunk; 0: all at once
 *
 * The logits, (B T, V), are the largest activation of a small model. Each chunk computes its logits, and from them its
 * loss, dlogits, dx and share of dW; the next chunk overwrites the logits. Nothing is kept for backward and nothing is
 * computed twice. But the gradients need logits that forward cannot keep. So in training forward does nothing, and
 * backward_input computes all, the loss included (op.h, all_in_backward). In evaluation forward computes the loss.
 *
 * Inside a chunk the vocabulary is cut into blocks of columns. The logits of a block are a matrix by itself, because a
 * product reads rows faster if they are close together. The loss treats a block as a shard of the vocabulary: it
 * combines the maximum and the sum of all blocks. Under tensor parallelism it then reduces both over the ranks
 * (tp/tp_linear_cross_entropy.c).
 *
 * dx is summed over all blocks in the accumulator's dtype and rounded once. Each chunk adds to dW once, in the
 * gradient's dtype.
 *
 * Only on the CPU. Source: Hsu et al. 2024, "Liger Kernel", section 3.2 (FusedLinearCrossEntropy), which computes the
 * gradients in forward instead. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_linear_cross_entropy;

/** x[0 .. n-1], of the accumulator's dtype, becomes the maximum (or the sum) over all shards of the vocabulary. */
typedef enum status vocabulary_reduce(const struct call *, void *x, int64_t n, bool maximum);

/** Run one row of this op, or of tp's op over a shard of the vocabulary (then W's first axis is the shard).
 *  @param gradient false: the loss only
 *  @param reduce NULL: W is the whole vocabulary
 *  @errors of the products and of `reduce`  @collective{that of reduce} */
enum status linear_cross_entropy_run(const struct call *, bool gradient, vocabulary_reduce *reduce);

/* The shape function that this op and the ops over a shard share. @errors E_CONFIG: operands that do not fit, or a
 * device other than the CPU */
enum status linear_cross_entropy_shape(const struct call *, struct type out[MAX_OUT]);
int64_t linear_cross_entropy_work(const struct call *, enum row_kind);
struct cost linear_cross_entropy_cost(const struct call *, enum row_kind);

/** The sizes of a call, its chunks and its blocks. The last chunk and the last block may be smaller. */
struct linear_cross_entropy_sizes {
    int64_t R, C, V;             /* tokens, channels, columns of the vocabulary here, padding included */
    int64_t rows, columns;       /* rows of a chunk; columns of a block */
};
struct linear_cross_entropy_sizes linear_cross_entropy_sizes(const struct call *);

/** Byte offsets in the scratch, which starts with the products' own: a chunk's logits, its dx if that is rounded at the
 *  end, and `numbers`: 4 for each token and 3 for each row of a chunk. */
struct linear_cross_entropy_scratch { int64_t logits, dx, numbers, bytes; };
struct linear_cross_entropy_scratch linear_cross_entropy_scratch(const struct call *, enum row_kind);
