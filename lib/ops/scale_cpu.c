/* y = x by. See scale.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/scale.h"

kernel CPU(scale_forward), CPU(scale_backward_input);

static void scale(elem *to, const elem *from, int64_t n, real by, int add) {
#pragma omp parallel for simd /* simd: `to` is `from` itself, or does not overlap it */
    for (int64_t i = 0; i < n; i++) put(to + i, by * load(from[i]), add);
}

enum status CPU(scale_forward)(const struct call *call) {
    scale(call->out[0].data, call->in[0].data, type_n(call->in[0].type), (real)call->step->scale.by, 0);
    return OK;
}

enum status CPU(scale_backward_input)(const struct call *call) {
    scale(call->din[0].data, call->dout[0].data, type_n(call->in[0].type), (real)call->step->scale.by,
          accumulates(call, 0));
    return OK;
}
