/* y = max(x, 0). See activation.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/activation.h"

kernel CPU(relu_forward), CPU(relu_backward_input);

enum status CPU(relu_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    int64_t n = type_n(call->in[0].type);
#pragma omp parallel for simd /* simd: y is x itself, or does not overlap it */
    for (int64_t i = 0; i < n; i++) y[i] = store(load(x[i]) > 0 ? load(x[i]) : 0 * load(x[i]));
    return OK;
}

/* 0 * y makes the gradient NaN where y is NaN. */
enum status CPU(relu_backward_input)(const struct call *call) {
    const elem *y = call->out[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    int64_t n = type_n(call->in[0].type);
    int add = accumulates(call, 0);
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) put(dx + i, load(y[i]) > 0 ? load(dy[i]) : 0 * load(y[i]), add);
    return OK;
}
