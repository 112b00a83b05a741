/* loss = loss_weight sum of log(1 + e^x) - y x. See binary_cross_entropy.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/rec/binary_cross_entropy.h"

kernel CPU(binary_cross_entropy_forward), CPU(binary_cross_entropy_backward_input);

enum status CPU(binary_cross_entropy_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    const int32_t *y = call->in[1].data;
    double sum = 0;
    for (int64_t i = 0; i < type_n(call->in[1].type); i++) {
        double v = (double)load(x[i]);
        if (y[i] >= 0) sum += (v > 0 ? v : 0) + log1p(exp(-fabs(v))) - y[i] * v;
    }
    *(real *)call->out[0].data = (real)(call->loss_weight * sum);
    return OK;
}

enum status CPU(binary_cross_entropy_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data;
    const int32_t *y = call->in[1].data;
    elem *dx = call->din[0].data;
    double scale = call->loss_weight * call->loss_scale;
    for (int64_t i = 0; i < type_n(call->in[1].type); i++) {
        double v = (double)load(x[i]), slope = 1 / (1 + exp(-v)) - y[i];
        put(dx + i, (real)(y[i] < 0 ? 0 : scale * slope), accumulates(call, 0));
    }
    return OK;
}
