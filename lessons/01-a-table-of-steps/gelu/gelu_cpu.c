/* Your GELU: forward, and the gradient of the input. Formulas: lib/ops/gelu.h. Theory: lesson 01, "An op and its
 * gradient".
 *
 * This file is compiled four times, for fp64, fp32, bf16 and fp16 (lib/ops/real.h). An element in memory is an `elem`;
 * load(x) converts it to a `real`, and store(r) rounds a `real` back. In fp32 a difference of nearly equal numbers
 * loses its digits, and e^100 is infinity, so take care of 1 - s and of large |x|. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/gelu.h"

kernel CPU(gelu_forward), CPU(gelu_backward_input);

/* y[i] = x[i] s(2u(x[i])) for all type_n(call->in[0].type) elements of x, call->in[0].data. y, call->out[0].data, may
 * be the same memory. real_exp (lib/ops/exp.h) is an exponential that the compiler can vectorise. */
enum status CPU(gelu_forward)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "gelu_forward is not written yet");
}

/* dx[i] = dy[i] dy/dx at x[i]. x is call->in[0] (so lib/ops/gelu.c declares .bi_in = IN(0)), dy is call->dout[0], dx
 * is call->din[0], which may be dy's memory. If several steps read x, all except the first must add to dx: put(dx + i,
 * value, accumulates(call, 0)) sets or adds. */
enum status CPU(gelu_backward_input)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "gelu_backward_input is not written yet");
}
