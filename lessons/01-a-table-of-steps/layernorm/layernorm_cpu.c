/* Your layer normalisation: forward, and the gradients of input and weights. Formulas: lib/ops/layernorm.h. Theory:
 * lesson 01, "An op and its gradient".
 *
 * Compiled four times, for fp64, fp32, bf16 and fp16 (lib/ops/real.h): elements are `elem` in memory, load(x) makes a
 * `real` of one, store(r) rounds back. SUM_OVER(i, n, expression) of lib/ops/cpu.h is a sum in a fixed order. */
#include "lib/ops/cpu.h"
#include "lib/ops/layernorm.h"

kernel CPU(layernorm_forward), CPU(layernorm_backward_input), CPU(layernorm_backward_weight);

/* x is call->in[0], (R, C) with C = call->weight[0].type->shape.axis[0].n; g and b are call->weight[0] and [1]. Writes
 * y to call->out[0] and, for backward, mean and rstd of each row to call->out[1]: two `real` a row. Subtract the mean
 * before you square. y may lie over x. */
enum status CPU(layernorm_forward)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "layernorm_forward is not written yet");
}

/* dx, into call->din[0], from dy (call->dout[0]), x, g and the statistics in call->out[1]. dx may lie over dy: take
 * both sums of a row before you write it. put(dx + i, value, accumulates(call, 0)) sets or adds, as the program needs
 * it. */
enum status CPU(layernorm_backward_input)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "layernorm_backward_input is not written yet");
}

/* dg and db, sums over the rows, *added* to call->dweight[0] and [1] by grad_add (lib/ops/cpu.h), which handles their
 * type. If threads share the work, let each have columns of its own, so that the order of a sum does not depend on how
 * many there are. */
enum status CPU(layernorm_backward_weight)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "layernorm_backward_weight is not written yet");
}
