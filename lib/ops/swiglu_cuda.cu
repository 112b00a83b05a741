/* y = a s(a) u; with gelu y = a s(2v) u, where v is gelu.h's u of a. See swiglu.h. Memory-bound: 3 elements moved for
 * each one computed forward, 5 backward; a warp takes a row. In 16 bits the exponential and the quotient are the
 * hardware's approximations, as in gelu_cuda.cu. */
#include "lib/ops/gelu.h"
#include "lib/ops/groups_cuda.h"
#include "lib/ops/swiglu.h"

extern "C" { kernel CUDA(swiglu_forward), CUDA(swiglu_backward_input); }
extern "C" { kernel CUDA(geglu_forward), CUDA(geglu_backward_input); }
extern "C" { kernel CUDA(swiglu_clamped_forward), CUDA(swiglu_clamped_backward_input); }

#if defined __CUDA_ARCH__ && (defined ELEM_bf16 || defined ELEM_fp16)
__device__ static inline real logistic(real x) { return __fdividef(1, 1 + __expf(-x)); }
#else
__device__ static inline real logistic(real x) { return 1 / (1 + exp(-x)); }
#endif

/* s(a), or with gelu s(2v). */
template <bool GELU> __device__ static inline real gate_logistic(real a) {
    return logistic(GELU ? 2 * (real)GELU_SQRT_2_OVER_PI * (a + (real)GELU_CUBIC * a * a * a) : a);
}
/* 1 - s(a); with gelu s(-2v), no difference of nearly equal numbers. */
template <bool GELU> __device__ static inline real gate_rest(real a, real s) {
    return GELU ? gate_logistic<GELU>(-a) : 1 - s;
}
/* da, from gradient = dy u. */
template <bool GELU> __device__ static inline real gate_gradient(real gradient, real a, real s, real rest) {
    if constexpr (!GELU) return gradient * s * (1 + a * rest);
    return gradient * (s + a * s * rest * (2 * (real)GELU_SQRT_2_OVER_PI * (1 + 3 * (real)GELU_CUBIC * a * a)));
}

template <bool GELU>
__global__ static void __launch_bounds__(ROW_THREADS)
gated_forward_warp_per_row(elem *y, const elem *x, int64_t R, int K, int packed) {
    FOR_ROWS_OF_WARP(r, R) {
        const elem *a = x + 2 * r * K, *u = a + K;
        for (int c = threadIdx.x % 32 * GROUP; c < K; c += WARP_COLUMNS) {
            group gate = group_load(a, c, K, packed), up = group_load(u, c, K, packed);
            real v[GROUP];
            for (int j = 0; j < GROUP; j++)
                v[j] = load(gate.x[j]) * gate_logistic<GELU>(load(gate.x[j])) * load(up.x[j]);
            group_put(y + r * K, c, K, packed, v, 0);
        }
    }
}

/* dx may be x, because a lane reads its elements of both halves before it writes them. */
template <bool GELU>
__global__ static void __launch_bounds__(ROW_THREADS)
gated_backward_warp_per_row(elem *dx, const elem *dy, const elem *x, int64_t R, int K, int packed, int accumulate) {
    FOR_ROWS_OF_WARP(r, R) {
        const elem *a = x + 2 * r * K, *u = a + K;
        for (int c = threadIdx.x % 32 * GROUP; c < K; c += WARP_COLUMNS) {
            group gate = group_load(a, c, K, packed), up = group_load(u, c, K, packed),
                  d = group_load(dy + r * K, c, K, packed);
            real da[GROUP], du[GROUP];
            for (int j = 0; j < GROUP; j++) {
                real g = load(gate.x[j]), s = gate_logistic<GELU>(g), rest = gate_rest<GELU>(g, s),
                     gradient = load(d.x[j]);
                da[j] = gate_gradient<GELU>(gradient * load(up.x[j]), g, s, rest);
                du[j] = gradient * g * s;
            }
            group_put(dx + 2 * r * K, c, K, packed, da, accumulate);
            group_put(dx + (2 * r + 1) * K, c, K, packed, du, accumulate);
        }
    }
}

/* ---- clamped; comparisons let NaN through ---- */

__device__ static inline real at_most(real x, real limit) { return x > limit ? limit : x; }
__device__ static inline real within(real x, real limit) { return -at_most(-at_most(x, limit), limit); }

__global__ static void __launch_bounds__(ROW_THREADS)
clamped_forward_warp_per_row(elem *y, const elem *x, int64_t R, int K, int packed, real limit) {
    FOR_ROWS_OF_WARP(r, R) {
        const elem *a = x + 2 * r * K, *u = a + K;
        for (int c = threadIdx.x % 32 * GROUP; c < K; c += WARP_COLUMNS) {
            group gate = group_load(a, c, K, packed), up = group_load(u, c, K, packed);
            real v[GROUP];
            for (int j = 0; j < GROUP; j++) {
                real g = at_most(load(gate.x[j]), limit);
                v[j] = g * logistic((real)SWIGLU_CLAMPED_ALPHA * g) * (within(load(up.x[j]), limit) + 1);
            }
            group_put(y + r * K, c, K, packed, v, 0);
        }
    }
}

/* dx may be x, as above. */
__global__ static void __launch_bounds__(ROW_THREADS)
clamped_backward_warp_per_row(elem *dx, const elem *dy, const elem *x, int64_t R, int K, int packed, real limit,
                              int accumulate) {
    const real alpha = (real)SWIGLU_CLAMPED_ALPHA;
    FOR_ROWS_OF_WARP(r, R) {
        const elem *a = x + 2 * r * K, *u = a + K;
        for (int c = threadIdx.x % 32 * GROUP; c < K; c += WARP_COLUMNS) {
            group gate = group_load(a, c, K, packed), up = group_load(u, c, K, packed),
                  d = group_load(dy + r * K, c, K, packed);
            real da[GROUP], du[GROUP];
            for (int j = 0; j < GROUP; j++) {
                real from_a = load(gate.x[j]), from_u = load(up.x[j]), gradient = load(d.x[j]);
                real g = at_most(from_a, limit), s = logistic(alpha * g);
                da[j] = from_a > limit ? (real)0
                                       : gradient * (within(from_u, limit) + 1) * s * (1 + alpha * g * (1 - s));
                du[j] = from_u > limit || from_u < -limit ? (real)0 : gradient * g * s;
            }
            group_put(dx + 2 * r * K, c, K, packed, da, accumulate);
            group_put(dx + (2 * r + 1) * K, c, K, packed, du, accumulate);
        }
    }
}

/* ---- launching ---- */

/* The length of a row of y. */
static int64_t row_length(const struct call *call) {
    const struct shape *y = &call->out[0].type->shape;
    return y->axis[y->n_axes - 1].n;
}

template <bool GELU> static enum status forward(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data;
    elem *y = (elem *)call->out[0].data;
    int64_t K = row_length(call), R = type_n(call->out[0].type) / K;
    return LAUNCHED(gated_forward_warp_per_row<GELU>, row_grid(R), ROW_THREADS, 0, stream_of(call), y, x, R, (int)K,
                    packs(K, x, y, NULL, NULL));
}

template <bool GELU> static enum status backward_input(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    elem *dx = (elem *)call->din[0].data;
    int64_t K = row_length(call), R = type_n(call->out[0].type) / K;
    return LAUNCHED(gated_backward_warp_per_row<GELU>, row_grid(R), ROW_THREADS, 0, stream_of(call), dx, dy, x, R,
                    (int)K, packs(K, x, dy, dx, NULL), accumulates(call, 0));
}

enum status CUDA(swiglu_forward)(const struct call *call) { return forward<false>(call); }
enum status CUDA(swiglu_backward_input)(const struct call *call) { return backward_input<false>(call); }
enum status CUDA(geglu_forward)(const struct call *call) { return forward<true>(call); }
enum status CUDA(geglu_backward_input)(const struct call *call) { return backward_input<true>(call); }

enum status CUDA(swiglu_clamped_forward)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data;
    elem *y = (elem *)call->out[0].data;
    int64_t K = row_length(call), R = type_n(call->out[0].type) / K;
    return LAUNCHED(clamped_forward_warp_per_row, row_grid(R), ROW_THREADS, 0, stream_of(call), y, x, R, (int)K,
                    packs(K, x, y, NULL, NULL), (real)call->step->clamp.limit);
}

enum status CUDA(swiglu_clamped_backward_input)(const struct call *call) {
    const elem *x = (const elem *)call->in[0].data, *dy = (const elem *)call->dout[0].data;
    elem *dx = (elem *)call->din[0].data;
    int64_t K = row_length(call), R = type_n(call->out[0].type) / K;
    return LAUNCHED(clamped_backward_warp_per_row, row_grid(R), ROW_THREADS, 0, stream_of(call), dx, dy, x, R, (int)K,
                    packs(K, x, dy, dx, NULL), (real)call->step->clamp.limit, accumulates(call, 0));
}
