/* y = x Phi(x). See gelu.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/gelu.h"

kernel CPU(gelu_erf_forward), CPU(gelu_erf_backward_input);

static inline real distribution(real x) {
    real z = -(real)GELU_SQRT_HALF * x;
    return (real)0.5 * (sizeof(real) == sizeof(float) ? (real)erfcf((float)z) : (real)erfc((double)z));
}
static inline real density(real x) { return (real)GELU_1_OVER_SQRT_2_PI * real_exp(-(real)0.5 * x * x); }

enum status CPU(gelu_erf_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    int64_t n = type_n(call->in[0].type);
#pragma omp parallel for /* y is x itself, or does not overlap it */
    for (int64_t i = 0; i < n; i++) y[i] = store(load(x[i]) * distribution(load(x[i])));
    return OK;
}

enum status CPU(gelu_erf_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    int64_t n = type_n(call->in[0].type);
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        real v = load(x[i]);
        put(dx + i, load(dy[i]) * (distribution(v) + v * density(v)), add);
    }
    return OK;
}
