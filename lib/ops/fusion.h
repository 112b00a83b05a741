/* Fusions: two rows in one kernel.
 *
 * A fusion is a pair of ops. If a row of `second` follows a row of `first` and reads its result, one kernel may run
 * both rows. The program does not change: the same values exist, in the same places, for as long. Backward, memory plan
 * and bill do not depend on fusions. The fused kernel saves the trip of a value through memory between the two rows.
 *
 *   linear, gelu                        y and gelu(y) from one product's epilogue       linear_gelu_cuda.c
 *   bias_dropout_residual, layernorm    the sum and its normalization, row by row       residual_layernorm_cuda.cu
 *
 * Backward has two kinds of pairs. Either both rows belong to one step, and compute the gradients of its weights and of
 * its input from the same dy. Or they compute the input gradients of two steps, and the second row reads the first's
 * result as its dy. That dy is then not written to memory, because only the second row reads it.
 *
 *   linear, gelu of the step before     gelu's dx in the epilogue of linear's product   linear_gelu_cuda.c
 *   layernorm                           x and dy are read once                          layernorm_backward_cuda.cu
 *   bias_dropout_residual               dy is read once                                 bias_dropout_residual_cuda.cu
 *   linear, its weight gradients alone  the bias's gradient from the product            linear_cuda.c
 *
 * lib/program/join.c joins rows when the program is lowered; `--fuse off` joins none, for comparison. If a fused kernel
 * does not support a shape, it runs the two separate kernels. Each kernel's file says whether fusing changes bits.
 *
 * What breaks: memory. The plan may place the second row's results in memory that dies with the first row: its
 * operands, its scratch, a result that is never read. That is right for two kernels. One kernel would write the result
 * while it still reads the operand, so such a pair is not joined. There is one exception: the second row may write over
 * the value that it reads from the first, or over the dy of both. Also, the second row's weights must be in memory
 * before the first row runs, so they must not overlap the first row's memory. */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both calls are bound to memory, as for op_run. In a fusion of one row, both are that row's call. */
typedef enum status fused_kernel(const struct call *first, const struct call *second);

/* If second is NULL, `run` replaces the op's own kernel for one row of `first`. */
struct fusion {
    const struct op *first, *second;
    enum row_kind kind;   /* of the first row; ROW_FORWARD stands for ROW_REPLAY too */
    fused_kernel *run[N_DEVICES][N_DTYPES];
};

/** Is the pair in the table, for any device? The table of every build has all pairs of ROW_BACKWARD_INPUT. */
bool fusion_listed(const struct op *first, const struct op *second, enum row_kind);

/** The kind of the second row. After ROW_BACKWARD_WEIGHT it is the ROW_BACKWARD_INPUT of the same step; otherwise both
 *  rows have one kind. */
static inline enum row_kind fusion_second(enum row_kind first) {
    return first == ROW_BACKWARD_WEIGHT ? ROW_BACKWARD_INPUT : first;
}

/** The kernel for this pair, or for `first` alone (second NULL); both calls are bound. NULL if the table has no kernel
 *  for the pair, device and dtype; if the second row does not read the first's out[0] or din[0] with the same shape and
 *  dtype (after ROW_BACKWARD_WEIGHT: if it has another step or dy); or if the second's results, scratch or weights
 *  overlap memory of the first, other than the value between them.  @collective{none} */
fused_kernel *fusion_of(const struct call *first, const struct call *second, enum row_kind);

/** Run the pair and add 1 to fusion_joined. @errors those of the kernel */
enum status fusion_run(fused_kernel *, const struct call *first, const struct call *second);
/* The table of fusions (fusion_table.c), ended by a row of zeros. */
extern const struct fusion fusions[];

/** How many pairs this process has run as one kernel. */
int64_t fusion_joined(void);

#ifdef __cplusplus
}
#endif
