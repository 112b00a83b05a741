/* Your GELU: forward, and the gradient of the input. Formulas: lib/ops/gelu.h. Theory: lesson 01, "An op and its
 * gradient".
 *
 * This file is compiled four times, for fp64, fp32, bf16 and fp16 (lib/ops/real.h): elements lie in memory as `elem`,
 * load(x) makes a `real` of one, store(r) rounds back. In fp32 a difference of nearly equal numbers loses its digits,
 * and e^100 is infinity: mind 1 - s, and large |x|. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/gelu.h"

kernel CPU(gelu_forward), CPU(gelu_backward_input);

/* y[i] = x[i] s(2u(x[i])) for all type_n(call->in[0].type) elements of call->in[0].data, into call->out[0].data. y may
 * lie over x. real_exp (lib/ops/exp.h) is an exponential that the compiler can vectorise. */
enum status CPU(gelu_forward)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "gelu_forward is not written yet");
}

/* dx[i] = dy[i] dy/dx at x[i]. x is call->in[0] (that is why lib/ops/gelu.c declares .bi_in = IN(0)), dy call->dout[0],
 * dx call->din[0], which may lie over dy. When several steps read x, all but the first must add to dx: put(dx + i,
 * value, accumulates(call, 0)) does either. */
enum status CPU(gelu_backward_input)(const struct call *call) {
    (void)call;
    return FAIL(E_TODO, "gelu_backward_input is not written yet");
}
