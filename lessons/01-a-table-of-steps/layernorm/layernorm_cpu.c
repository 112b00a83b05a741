/* Your layer normalisation: forward, and the gradients of input and weights. Formulas: lib/ops/layernorm.h. Theory:
 * lesson 01, "An op and its gradient".
 *
 * This file is compiled four times, for fp64, fp32, bf16 and fp16 (lib/ops/real.h). An element in memory is an `elem`;
 * load(x) converts it to a `real`, and store(r) rounds a `real` back. SUM_OVER(i, n, expression) (lib/ops/cpu.h) is a
 * sum in a fixed order. */
#include "lib/ops/cpu.h"
#include "lib/ops/layernorm.h"

kernel CPU(layernorm_forward), CPU(layernorm_backward_input), CPU(layernorm_backward_weight);

/* x is call->in[0], R rows of C elements: C = call->weight[0].type->shape.axis[0].n, R = type_n(call->in[0].type) / C.
 * g and b are call->weight[0] and [1]. Write y to call->out[0]; y may be x's memory. eps is layernorm_eps(call): models
 * differ. For backward write mean and rstd of each row to call->out[1], which is always there: two `real` per row.
 * Subtract the mean before you square. */
enum status CPU(layernorm_forward)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "layernorm_forward is not written yet");
}

/* Compute dx (call->din[0]) from dy (call->dout[0]), x, g and the statistics in call->out[1]. dx may be dy's memory, so
 * compute both sums of a row before you write the row. put(dx + i, value, accumulates(call, 0)) sets or adds, as the
 * program needs. */
enum status CPU(layernorm_backward_input)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "layernorm_backward_input is not written yet");
}

/* dg and db are sums over the rows. *Add* them to call->dweight[0] and [1] with grad_add (lib/ops/cpu.h), which
 * converts to their type. If threads share the work, give each thread its own columns, so that the order of a sum does
 * not depend on the number of threads. */
enum status CPU(layernorm_backward_weight)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "layernorm_backward_weight is not written yet");
}
