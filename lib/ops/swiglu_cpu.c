/* y = a s(a) u; with gelu y = a s(2v) u, where v is gelu.h's u of a. See swiglu.h. s and 1 - s come from one
 * exponential, whose argument is never positive, as in gelu_cpu.c. dx may be x, because an element is read before it is
 * written. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/gelu.h"
#include "lib/ops/swiglu.h"

kernel CPU(swiglu_forward), CPU(swiglu_backward_input), CPU(geglu_forward), CPU(geglu_backward_input);

/* Elements per vector iteration. For bf16 a compiler would choose twice as many, and run out of registers. */
enum { AT_ONCE = 64 / sizeof(real) };

struct logistic { real s, one_minus_s; };

static inline struct logistic logistic_of(real x) {
    real e = real_exp(x < 0 ? x : -x), large = 1 / (1 + e), small = e * large;
    return (struct logistic){x < 0 ? small : large, x < 0 ? large : small};
}

enum status CPU(swiglu_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        const elem *a = x + 2 * r * K, *u = a + K;
#pragma omp simd simdlen(AT_ONCE)
        for (int64_t k = 0; k < K; k++) y[r * K + k] = store(load(a[k]) * logistic_of(load(a[k])).s * load(u[k]));
    }
    return OK;
}

static void row_backward(const elem *a, const elem *u, const elem *dy, elem *da, elem *du, int64_t K, int add) {
#pragma omp simd simdlen(AT_ONCE)
    for (int64_t k = 0; k < K; k++) {
        real gate = load(a[k]), up = load(u[k]), d = load(dy[k]);
        struct logistic l = logistic_of(gate);
        put(da + k, d * up * l.s * (1 + gate * l.one_minus_s), add);
        put(du + k, d * gate * l.s, add);
    }
}

enum status CPU(swiglu_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++)
        row_backward(x + 2 * r * K, x + (2 * r + 1) * K, dy + r * K, dx + 2 * r * K, dx + (2 * r + 1) * K, K, add);
    return OK;
}

/* ---- with gelu ---- */

static inline struct logistic logistic_of_2v(real x) {
    return logistic_of(2 * (real)GELU_SQRT_2_OVER_PI * (x + (real)GELU_CUBIC * x * x * x));
}

enum status CPU(geglu_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        const elem *a = x + 2 * r * K, *u = a + K;
#pragma omp simd simdlen(AT_ONCE)
        for (int64_t k = 0; k < K; k++) y[r * K + k] = store(load(a[k]) * logistic_of_2v(load(a[k])).s * load(u[k]));
    }
    return OK;
}

static void gelu_row_backward(const elem *a, const elem *u, const elem *dy, elem *da, elem *du, int64_t K, int add) {
#pragma omp simd simdlen(AT_ONCE)
    for (int64_t k = 0; k < K; k++) {
        real gate = load(a[k]), up = load(u[k]), d = load(dy[k]);
        struct logistic l = logistic_of_2v(gate);
        real slope = (real)GELU_SQRT_2_OVER_PI * (1 + 3 * (real)GELU_CUBIC * gate * gate);
        put(da + k, d * up * (l.s + 2 * gate * l.s * l.one_minus_s * slope), add);
        put(du + k, d * gate * l.s, add);
    }
}

enum status CPU(geglu_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++)
        gelu_row_backward(x + 2 * r * K, x + (2 * r + 1) * K, dy + r * K, dx + 2 * r * K, dx + (2 * r + 1) * K, K, add);
    return OK;
}
