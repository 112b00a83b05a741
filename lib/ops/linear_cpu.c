/* y = x W^T + b, dx = dy W, dW += dy^T x, db += sum of the rows of dy. See linear.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/linear_cpu.h"

kernel CPU(linear_forward), CPU(linear_backward_input), CPU(linear_backward_weight);

enum status CPU(linear_forward)(const struct call *call) {
    struct gemm g = linear_gemm(call, ROW_FORWARD);
    TRY(op_touch_work(call, ROW_FORWARD));
    const void *bias = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    TRY(gemm_run(&g, call->in[0].data, call->weight[0].data, bias, call->out[0].data, call->work));
    return OK;
}

enum status CPU(linear_backward_input)(const struct call *call) {
    struct gemm g = linear_gemm(call, ROW_BACKWARD_INPUT);
    TRY(op_touch_work(call, ROW_BACKWARD_INPUT));
    TRY(gemm_run(&g, call->dout[0].data, call->weight[0].data, NULL, call->din[0].data, call->work));
    return OK;
}

enum status CPU(linear_backward_weight)(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct gemm g = linear_gemm(call, ROW_BACKWARD_WEIGHT);
    TRY(op_touch_work(call, ROW_BACKWARD_WEIGHT));
    g.c_dtype = call->dweight[0].type->dtype;
    if (call->step->n_weight > 1) bias_gradient(&call->dweight[1], call->dout[0].data, s.R, s.K);
    TRY(gemm_run(&g, call->dout[0].data, call->in[0].data, NULL, call->dweight[0].data, call->work));
    return OK;
}
