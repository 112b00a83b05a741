/* y = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the logistic function. See gelu.h.
 *
 * s and 1 - s need one exponential, e = e^(-2|u|), whose argument is never positive: the larger of s and 1 - s is
 * 1/(1+e), the smaller e/(1+e). Neither overflows, and neither is a difference of nearly equal numbers. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/gelu.h"

kernel CPU(gelu_forward), CPU(gelu_backward_input);

/* Elements per vector iteration. For bf16 a compiler would choose twice as many, and run out of registers. */
enum { AT_ONCE = 64 / sizeof(real) };

struct logistic { real s, one_minus_s; };

static inline struct logistic logistic_of_2u(real x) {
    real u = (real)GELU_SQRT_2_OVER_PI * (x + (real)GELU_CUBIC * x * x * x);
    real e = real_exp(-2 * (u < 0 ? -u : u));
    real large = 1 / (1 + e), small = e * large;
    struct logistic l = {u < 0 ? small : large, u < 0 ? large : small};
    return l;
}

enum status CPU(gelu_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    int64_t n = type_n(call->in[0].type);
#pragma omp parallel for simd simdlen(AT_ONCE) /* simd: y is x itself, or does not overlap it */
    for (int64_t i = 0; i < n; i++) y[i] = store(load(x[i]) * logistic_of_2u(load(x[i])).s);
    return OK;
}

static inline real gelu_derivative(real x) {
    struct logistic l = logistic_of_2u(x);
    real du = (real)GELU_SQRT_2_OVER_PI * (1 + 3 * (real)GELU_CUBIC * x * x);
    return l.s + 2 * x * l.s * l.one_minus_s * du;
}

enum status CPU(gelu_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    int64_t n = type_n(call->in[0].type);
    int add = accumulates(call, 0);
#pragma omp parallel for simd simdlen(AT_ONCE)
    for (int64_t i = 0; i < n; i++) put(dx + i, load(dy[i]) * gelu_derivative(load(x[i])), add);
    return OK;
}
