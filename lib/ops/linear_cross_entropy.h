/* The head and its loss in one: softmax cross-entropy of x W^T + b, by chunks of tokens, so that logits for all tokens
 * never exist.
 *
 *   logits[r,k] = sum_c x[r,c] W[k,c] + b[k]     loss = loss_weight sum_r (lse[r] - logits[r, target[r]])
 *   dx = dlogits W     dW += dlogits^T x     db += sum of the rows of dlogits        (lse, dlogits: cross_entropy.h)
 *
 * in[0] x (B,T,C)   in[1] targets int32 (B,T)   weight[0] W (V,C)   weight[1] b (V), where there is one
 * out[0] loss (1), in the accumulator's dtype
 * head.rows    tokens of a chunk; 0: all at once
 *
 * The logits, (B T, V), are the largest activation of a small model. A chunk makes its own, takes from them loss,
 * dlogits, dx and its share of dW, and the next chunk makes its own over them. Nothing is kept for backward and nothing
 * is computed twice; the price is the order: the gradients need the logits, and the logits are gone when forward ends.
 * So in training forward does nothing, and backward_input does everything, the loss included (op.h, all_in_backward).
 * In evaluation forward makes the loss.
 *
 * Inside a chunk the vocabulary goes in blocks of columns, each a matrix by itself, because products read rows that lie
 * close together faster. For the loss a block is what a rank is under tensor parallelism: a shard of the vocabulary;
 * the maximum and the sum over all shards come from those of each. Over ranks they are reduced in between
 * (tp/tp_linear_cross_entropy.c).
 *
 * dx is summed in the accumulator's dtype over all blocks and rounded once. dW is added to once a chunk, in the
 * gradient's dtype.
 *
 * Only on the CPU. Source: Hsu et al. 2024, "Liger Kernel", section 3.2 (FusedLinearCrossEntropy), which computes the
 * gradients in forward instead. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_linear_cross_entropy;

/** x[0 .. n-1], of the accumulator's dtype, becomes the maximum (or the sum) over all shards of the vocabulary. */
typedef enum status vocabulary_reduce(const struct call *, void *x, int64_t n, bool maximum);

/** One row of this op, or of one like it over a shard of the vocabulary: W's first axis is the shard.
 *  @param gradient false: the loss only
 *  @param reduce NULL: W is the whole vocabulary
 *  @errors of the products and of `reduce`  @collective{that of reduce} */
enum status linear_cross_entropy_run(const struct call *, bool gradient, vocabulary_reduce *reduce);

/* The shape function that this op and the ops over a shard share. @errors E_CONFIG: operands that do not fit, or a
 * device other than the CPU */
enum status linear_cross_entropy_shape(const struct call *, struct type out[MAX_OUT]);
int64_t linear_cross_entropy_work(const struct call *, enum row_kind);
struct cost linear_cross_entropy_cost(const struct call *, enum row_kind);

/** How a call is cut. The last chunk and the last block may be smaller. */
struct linear_cross_entropy_sizes {
    int64_t R, C, V;             /* tokens, channels, columns of the vocabulary here, padding included */
    int64_t rows, columns;       /* rows of a chunk; columns of a block */
};
struct linear_cross_entropy_sizes linear_cross_entropy_sizes(const struct call *);

/** Scratch, in bytes from its beginning: what the products want, a chunk's logits, its dx if that is rounded at the
 *  end, and five numbers per token. */
struct linear_cross_entropy_scratch { int64_t logits, dx, numbers, bytes; };
struct linear_cross_entropy_scratch linear_cross_entropy_scratch(const struct call *, enum row_kind);
