/* y = x, dx += dy. See branch.h. Lowering emits a row only if y is no view of x, or dx no view of dy. */
#include "lib/ops/branch.h"
#include "lib/ops/cpu.h"

kernel CPU(branch_forward), CPU(branch_backward_input);

enum status CPU(branch_forward)(const struct call *call) {
    memcpy(call->out[0].data, call->in[0].data, (size_t)type_bytes(call->in[0].type));
    return OK;
}

enum status CPU(branch_backward_input)(const struct call *call) {
    const elem *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    int64_t n = type_n(call->in[0].type);
    int add = accumulates(call, 0);
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) put(dx + i, load(dy[i]), add);
    return OK;
}
