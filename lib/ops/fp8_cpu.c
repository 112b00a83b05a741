/* Casts to fp8, and products of the codes. See fp8.h.
 *
 * The CPU has no fp8. Codes are widened to the model's dtype, which represents all their values, and multiplied as in
 * linear_cpu.c. In fp64 these products lose no digits, so a run with `--precision fp64` is the reference for fp8,
 * except for the order of sums. */
#include "lib/ops/fp8.h"
#include "lib/ops/linear_cpu.h"
#include <float.h>

kernel CPU(cast_fp8_forward);
kernel CPU(linear_fp8_forward), CPU(linear_fp8_backward_input), CPU(linear_fp8_backward_weight);

fp8_amax_kernel CPU(fp8_note_amax);

#if defined ELEM_fp64
static inline float narrowed(real x) { return dtype_float_to_odd(x); }
static const real LARGEST = DBL_MAX;
#else
static inline float narrowed(real x) { return x; }
static const real LARGEST = FLT_MAX;
#endif

/* ---- amax ---- */
/* The largest |x|; infinity if any x is not finite, because a comparison alone would skip NaN. */
static double amax_of(const elem *x, int64_t n) {
    real most = 0;
    int odd = 0;
#pragma omp parallel for simd reduction(max : most) reduction(| : odd)
    for (int64_t i = 0; i < n; i++) {
        real a = load(x[i]) < 0 ? -load(x[i]) : load(x[i]);
        odd |= !(a <= LARGEST);
        most = a > most ? a : most;
    }
    return odd ? (double)INFINITY : (double)most;
}

void CPU(fp8_note_amax)(const struct call *call, enum fp8_tensor t, const void *x, int64_t n) {
    double *amax = call->step->fp8.amax + call->step->fp8.first + t, here = call->training ? amax_of(x, n) : 0;
    if (here > *amax) *amax = here;
}

/* ---- casts ---- */
enum status CPU(cast_fp8_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    uint8_t *code = call->out[0].data;
    const real s = (real)fp8_scale(call, FP8_X);
    int64_t n = type_n(call->in[0].type);
    CPU(fp8_note_amax)(call, FP8_X, x, n);
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) code[i] = e4m3_from_float(narrowed(s * load(x[i])));
    return OK;
}

static void widen(elem *to, const uint8_t *code, int64_t n) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) to[i] = store((real)e4m3_to_float(code[i]));
}

/* to[i] = the value of x[i]'s code: cast x, and widen the code again. */
static void cast(const struct call *call, enum fp8_tensor t, const elem *x, int64_t n, elem *to) {
    const real s = (real)fp8_scale(call, t);
    CPU(fp8_note_amax)(call, t, x, n);
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) {
        float scaled = narrowed(s * load(x[i]));
        to[i] = store((real)(t == FP8_DY ? e5m2_to_float(e5m2_from_float(scaled))
                                         : e4m3_to_float(e4m3_from_float(scaled))));
    }
}

/* ---- products ---- */
/* A row's product, and its two operands' widened codes in scratch. */
struct product { struct gemm g; elem *a, *b; };

static struct product product_of(const struct call *call, enum row_kind kind, enum fp8_tensor a, enum fp8_tensor b) {
    struct fp8_work w = fp8_work(call, kind);
    char *work = call->work;
    struct product p = {linear_gemm(call, kind), (elem *)(work + w.a), (elem *)(work + w.b)};
    p.g.alpha = 1 / (fp8_scale(call, a) * fp8_scale(call, b));
    return p;
}

static void cast_dy(const struct call *call, elem *to) {
    cast(call, FP8_DY, call->dout[0].data, type_n(call->dout[0].type), to);
}
static void cast_w(const struct call *call, elem *to) {
    cast(call, FP8_W, call->weight[0].data, type_n(call->weight[0].type), to);
}

enum status CPU(linear_fp8_forward)(const struct call *call) {
    struct product p = product_of(call, ROW_FORWARD, FP8_X, FP8_W);
    const void *bias = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    widen(p.a, call->in[0].data, type_n(call->in[0].type));
    cast_w(call, p.b);
    return gemm_run(&p.g, p.a, p.b, bias, call->out[0].data, call->work);
}

enum status CPU(linear_fp8_backward_input)(const struct call *call) {
    struct product p = product_of(call, ROW_BACKWARD_INPUT, FP8_DY, FP8_W);
    cast_dy(call, p.a);
    cast_w(call, p.b);
    return gemm_run(&p.g, p.a, p.b, NULL, call->din[0].data, call->work);
}

/* The bias gradient sums dy itself, not its codes. */
enum status CPU(linear_fp8_backward_weight)(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_BACKWARD_WEIGHT, FP8_DY, FP8_X);
    p.g.c_dtype = call->dweight[0].type->dtype;
    if (call->step->n_weight > 1) bias_gradient(&call->dweight[1], call->dout[0].data, s.R, s.K);
    cast_dy(call, p.a);
    widen(p.b, call->in[0].data, type_n(call->in[0].type));
    return gemm_run(&p.g, p.a, p.b, NULL, call->dweight[0].data, call->work);
}
