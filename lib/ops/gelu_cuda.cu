/* y = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the logistic function. See gelu.h.
 *
 * Memory-bound: 2 (forward) or 3 (backward) elements moved for each one computed. A thread loads AHEAD packs of 16
 * bytes before it computes, so that a multiprocessor has some 64 KiB in flight. 5 TB/s with a latency of 1 us needs 40
 * KiB in flight.
 *
 * Instructions are limited, too: at 5 TB/s and 2 bytes per element there is time for some 20 per element. A correctly
 * rounded exponential and quotient take more. So for bf16 and fp16 they are the hardware's approximations, with 22
 * correct bits for a result of 8 or 11 bits. */
#include "lib/ops/gelu.h"
#include "lib/ops/groups_cuda.h"

extern "C" { kernel CUDA(gelu_forward), CUDA(gelu_backward_input); }

enum { THREADS = 256, AHEAD = 2 };

#if defined __CUDA_ARCH__ && (defined ELEM_bf16 || defined ELEM_fp16)
__device__ static inline real exponential(real x) { return __expf(x); }
__device__ static inline real reciprocal(real x) {
    real y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
__device__ static inline real exponential(real x) { return exp(x); }
__device__ static inline real reciprocal(real x) { return 1 / x; }
#endif

/* -2u = -(2 k x)(1 + c x^2), k = sqrt(2/pi), c = 0.044715 */
__device__ static inline real minus_2u(real x) {
    return x * (x * x * (real)(-2 * GELU_SQRT_2_OVER_PI * GELU_CUBIC) + (real)(-2 * GELU_SQRT_2_OVER_PI));
}

/* y = x s, s = 1 / (1 + e^(-2u)). The exponential overflows only for x < -10, where s and y are rightly 0. */
__device__ static inline real gelu(real x) { return x * reciprocal(1 + exponential(minus_2u(x))); }

/* dy/dx = s + x s (1 - s) d(2u)/dx. With e = e^(-2|u|), the larger of s and 1 - s is 1/(1+e), the smaller e/(1+e), so
 * that nothing overflows or cancels. */
__device__ static inline real gelu_derivative(real x) {
    real v = minus_2u(x), e = exponential(v < 0 ? v : -v);
    real large = reciprocal(1 + e), small = e * large;
    real d2u = x * x * (real)(6 * GELU_SQRT_2_OVER_PI * GELU_CUBIC) + (real)(2 * GELU_SQRT_2_OVER_PI);
    return (v > 0 ? small : large) + x * (large * small) * d2u;
}

/* The packs of this thread, as indices of elements. Neighboring threads take neighboring packs; a thread's next pack is
 * one grid of packs further. */
struct place { int64_t first, step, end; };
__device__ static inline struct place place_of_thread(int64_t n) {
    struct place p = {((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * PACK, (int64_t)gridDim.x * blockDim.x * PACK,
                      n / PACK * PACK};
    return p;
}

/* y may be x, and dx may be dy, because a thread reads its elements before it writes them. The first threads of the
 * grid compute the last n % PACK elements, one each. */
__global__ static void __launch_bounds__(THREADS) gelu_forward_pack(elem *y, const elem *x, int64_t n) {
    struct place p = place_of_thread(n);
    for (int64_t i = p.first; i < p.end; i += AHEAD * p.step) {
        pack v[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) v[a] = pack_load(x + (i + a * p.step < p.end ? i + a * p.step : i));
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            for (int j = 0; j < PACK; j++) v[a].x[j] = store(gelu(load(v[a].x[j])));
            if (i + a * p.step < p.end) store_whole((pack *)(y + i + a * p.step), v[a]);
        }
    }
    int64_t i = p.end + p.first / PACK;
    if (i < n) y[i] = store(gelu(load(x[i])));
}

__global__ static void __launch_bounds__(THREADS)
gelu_backward_pack(elem *dx, const elem *dy, const elem *x, int64_t n, int accumulate) {
    struct place p = place_of_thread(n);
    for (int64_t i = p.first; i < p.end; i += p.step) {
        pack v = pack_load(x + i), d = pack_load(dy + i), old = d;
        if (accumulate) old = pack_load(dx + i);
        for (int j = 0; j < PACK; j++) put(&old.x[j], load(d.x[j]) * gelu_derivative(load(v.x[j])), accumulate);
        store_whole((pack *)(dx + i), old);
    }
    int64_t i = p.end + p.first / PACK;
    if (i < n) put(dx + i, load(dy[i]) * gelu_derivative(load(x[i])), accumulate);
}

enum status CUDA(gelu_forward)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(gelu_forward_pack, grid_of(n, THREADS * PACK * AHEAD), THREADS, 0, stream_of(call),
                    (elem *)call->out[0].data, (const elem *)call->in[0].data, n);
}

enum status CUDA(gelu_backward_input)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(gelu_backward_pack, grid_of(n, THREADS * PACK), THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (const elem *)call->dout[0].data, (const elem *)call->in[0].data, n,
                    accumulates(call, 0));
}
