/* Two rows in one kernel.
 *
 * A fusion says: a row of `first` that is directly followed by a row of `second`, which reads what the first made, may be
 * run by one kernel. The program does not change: the same values exist, in the same places, for as long; backward, memory
 * plan and bill know nothing of it. What is saved is the trip of a value through memory between the two.
 *
 *   linear, gelu                               y and gelu(y) from one product's epilogue
 *   bias_dropout_residual, layernorm           the sum and its normalisation while the row is in registers
 *
 * The executor looks (exec.c); `--fuse off` keeps it from it, for comparison. A fusion computes what the two kernels would,
 * except that the second reads the first's result before it is rounded; where that changes bits, the fused kernel says so. */
#ifndef TRIVIUM_OPS_FUSION_H
#define TRIVIUM_OPS_FUSION_H

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both calls bound, as if each were about to run. */
typedef enum status fused_kernel(const struct call *first, const struct call *second);

struct fusion {
    const struct op *first, *second;
    enum row_kind kind;                                  /* of both rows; ROW_FORWARD stands for ROW_REPLAY too */
    fused_kernel *run[N_DEVICES][N_DTYPES];
};

/** The kernel for this pair, or NULL: not in the table, not for this device or dtype, or the second does not read the first's
 *  out[0] (forward; backward: does not go on with the first's din[0]), or a result of the second would lie over something
 *  that the first still reads. Calls bound. @collective{none} */
fused_kernel *fusion_of(const struct call *first, const struct call *second, enum row_kind);

#ifdef __cplusplus
}
#endif
#endif
