/* y = a s(a) u; with gelu y = a s(2v) u, where v is gelu.h's u of a. See swiglu.h. s and 1 - s come from one
 * exponential, whose argument is never positive, as in gelu_cpu.c. dx may be x, because an element is read before it is
 * written. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/gelu.h"
#include "lib/ops/swiglu.h"

kernel CPU(swiglu_forward), CPU(swiglu_backward_input), CPU(geglu_forward), CPU(geglu_backward_input);
kernel CPU(swiglu_clamped_forward), CPU(swiglu_clamped_backward_input);

/* Elements per vector iteration. For bf16 a compiler would choose twice as many, and run out of registers. */
enum { AT_ONCE = 64 / sizeof(real) };

/* Loops over a row are compiled for each gate. */
enum gate { SILU, GELU };
#define FOR_GATE static inline __attribute__((always_inline))

struct logistic { real s, one_minus_s; };

/* s(x), or with gelu s(2v). */
FOR_GATE struct logistic logistic_of(enum gate gate, real x) {
    if (gate == GELU) x = 2 * (real)GELU_SQRT_2_OVER_PI * (x + (real)GELU_CUBIC * x * x * x);
    real e = real_exp(x < 0 ? x : -x), large = 1 / (1 + e), small = e * large;
    return (struct logistic){x < 0 ? small : large, x < 0 ? large : small};
}

FOR_GATE void row_forward(enum gate gate, elem *y, const elem *a, const elem *u, int64_t K) {
#pragma omp simd simdlen(AT_ONCE)
    for (int64_t k = 0; k < K; k++) y[k] = store(load(a[k]) * logistic_of(gate, load(a[k])).s * load(u[k]));
}

FOR_GATE void row_backward(enum gate gate, const elem *a, const elem *u, const elem *dy, elem *da, elem *du, int64_t K,
                           int add) {
#pragma omp simd simdlen(AT_ONCE)
    for (int64_t k = 0; k < K; k++) {
        real x = load(a[k]), up = load(u[k]), d = load(dy[k]);
        struct logistic l = logistic_of(gate, x);
        real slope = (real)GELU_SQRT_2_OVER_PI * (1 + 3 * (real)GELU_CUBIC * x * x);   /* of v */
        real dx = gate == GELU ? d * up * (l.s + 2 * x * l.s * l.one_minus_s * slope)
                               : d * up * l.s * (1 + x * l.one_minus_s);
        put(da + k, dx, add);
        put(du + k, d * x * l.s, add);
    }
}

static enum status forward(const struct call *call, enum gate gate) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        const elem *a = x + 2 * r * K;
        if (gate == GELU) row_forward(GELU, y + r * K, a, a + K, K);
        else row_forward(SILU, y + r * K, a, a + K, K);
    }
    return OK;
}

static enum status backward_input(const struct call *call, enum gate gate) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        const elem *a = x + 2 * r * K;
        elem *da = dx + 2 * r * K;
        if (gate == GELU) row_backward(GELU, a, a + K, dy + r * K, da, da + K, K, add);
        else row_backward(SILU, a, a + K, dy + r * K, da, da + K, K, add);
    }
    return OK;
}

/* ---- clamped; comparisons let NaN through ---- */
static inline real at_most(real x, real limit) { return x > limit ? limit : x; }

enum status CPU(swiglu_clamped_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
    real limit = (real)call->step->clamp.limit;
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        const elem *a = x + 2 * r * K, *u = a + K;
#pragma omp simd simdlen(AT_ONCE)
        for (int64_t k = 0; k < K; k++) {
            real gate = at_most(load(a[k]), limit), up = -at_most(-at_most(load(u[k]), limit), limit);
            y[r * K + k] = store(gate * logistic_of(SILU, (real)SWIGLU_CLAMPED_ALPHA * gate).s * (up + 1));
        }
    }
    return OK;
}

enum status CPU(swiglu_clamped_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    const struct shape *shape = &call->out[0].type->shape;
    int64_t K = shape->axis[shape->n_axes - 1].n, R = shape_n(shape) / K;
    real limit = (real)call->step->clamp.limit, alpha = (real)SWIGLU_CLAMPED_ALPHA;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        const elem *a = x + 2 * r * K, *u = a + K;
        elem *da = dx + 2 * r * K, *du = da + K;
#pragma omp simd simdlen(AT_ONCE)
        for (int64_t k = 0; k < K; k++) {
            real from_a = load(a[k]), from_u = load(u[k]), d = load(dy[r * K + k]);
            real gate = at_most(from_a, limit), up = -at_most(-at_most(from_u, limit), limit);
            struct logistic l = logistic_of(SILU, alpha * gate);
            put(da + k, from_a > limit ? 0 : d * (up + 1) * l.s * (1 + alpha * gate * l.one_minus_s), add);
            put(du + k, from_u > limit || from_u < -limit ? 0 : d * gate * l.s, add);
        }
    }
    return OK;
}

enum status CPU(swiglu_forward)(const struct call *call) { return forward(call, SILU); }
enum status CPU(swiglu_backward_input)(const struct call *call) { return backward_input(call, SILU); }
enum status CPU(geglu_forward)(const struct call *call) { return forward(call, GELU); }
enum status CPU(geglu_backward_input)(const struct call *call) { return backward_input(call, GELU); }
