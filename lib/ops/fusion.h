/* Two rows in one kernel.
 *
 * A fusion says: a row of `first` that is followed by a row of `second`, which reads what the first made, may be run by
 * one kernel. The program does not change: the same values exist, in the same places, for as long; backward, memory
 * plan and bill know nothing of it. What is saved is the trip of a value through memory between the two.
 *
 *   linear, gelu                        y and gelu(y) from one product's epilogue       linear_gelu_cuda.c
 *   bias_dropout_residual, layernorm    the sum and its normalization, row by row       residual_layernorm_cuda.cu
 *
 * Backward, the two rows are those of one step, the gradients of its weights and of its input, from the same dy; or the
 * gradients of the inputs of two steps, the second of what the first made. Then the value between them is not written:
 * only the second reads it, and writes over it.
 *
 *   linear, gelu of the step before     gelu's dx from the product of its dy            linear_gelu_cuda.c
 *   layernorm                           x and dy are read once                          layernorm_backward_cuda.cu
 *   bias_dropout_residual               dy is read once                                 bias_dropout_residual_cuda.cu
 *   linear, its weights alone           the bias's gradient from the product            linear_cuda.c
 *
 * Which rows are joined is settled when they are lowered (lib/program/join.c); `--fuse off` leaves it out, for
 * comparison. A fused kernel that cannot do a shape runs the two kernels apart. Whether it changes bits, its file says.
 *
 * What breaks: memory. The plan gives the second's results the place of anything that dies with the first row: its
 * operands, its scratch, a result that is never read. Run apart, that is right; run together, one is written while the
 * other is still read. Such a pair is not joined. The exception is the value between them, or the dy of both: the
 * second may write over what it reads. And the second's weights must be there before the first runs. */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both calls are bound, as if each were about to run. For a fusion of one row, both are that row's call. */
typedef enum status fused_kernel(const struct call *first, const struct call *second);

/* second NULL: the fusion is of one row, which another kernel can run as well. */
struct fusion {
    const struct op *first, *second;
    enum row_kind kind;   /* of the first row; ROW_FORWARD stands for ROW_REPLAY too */
    fused_kernel *run[N_DEVICES][N_DTYPES];
};

/** Is the pair in the table, for whatever device? The same in every build. */
bool fusion_listed(const struct op *first, const struct op *second, enum row_kind);

/** The kind of the second row: the first's; ROW_BACKWARD_WEIGHT is followed by the ROW_BACKWARD_INPUT of the same
 *  step. */
static inline enum row_kind fusion_second(enum row_kind first) {
    return first == ROW_BACKWARD_WEIGHT ? ROW_BACKWARD_INPUT : first;
}

/** The kernel for this pair, or for the first alone (second NULL), or NULL: not in the table, not for this device or
 *  dtype; or the second does not read the first's out[0], or the gradient that it makes, whole and as it is (of
 *  weights: is not the same step's, of the same dy); or what the second writes, its scratch or its weights would lie
 *  over something of the first's, other than the value between them. Calls bound.  @collective{none} */
fused_kernel *fusion_of(const struct call *first, const struct call *second, enum row_kind);

/** Run the pair, and count it. @errors those of the kernel */
enum status fusion_run(fused_kernel *, const struct call *first, const struct call *second);
/** How many pairs this process has run as one kernel. */
int64_t fusion_joined(void);

#ifdef __cplusplus
}
#endif
