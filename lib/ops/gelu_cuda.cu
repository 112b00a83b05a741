/* y = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the logistic function. See gelu.h.
 *
 * Memory-bound: 2 (forward) or 3 (backward) elements moved for each one computed, so each thread moves 16 bytes at a time.
 * The last n % PACK elements are taken one by one, by the first threads of the grid. */
#include "lib/ops/cuda.h"
#include "lib/ops/gelu.h"

extern "C" { kernel CUDA(gelu_forward), CUDA(gelu_backward_input); }

enum { THREADS = 256 };

struct logistic { real s, one_minus_s; };

/* With e = e^(-2|u|), the larger of s and 1 - s is 1/(1+e) and the smaller e/(1+e): nothing overflows or cancels. */
__device__ static inline struct logistic logistic_of_2u(real x) {
    real u = (real)GELU_SQRT_2_OVER_PI * (x + (real)GELU_CUBIC * x * x * x);
    real e = exp(-2 * (u < 0 ? -u : u));
    real large = 1 / (1 + e), small = e * large;
    struct logistic l = {u < 0 ? small : large, u < 0 ? large : small};
    return l;
}

__device__ static inline real gelu(real x) { return x * logistic_of_2u(x).s; }

__device__ static inline real gelu_derivative(real x) {
    struct logistic l = logistic_of_2u(x);
    real du = (real)GELU_SQRT_2_OVER_PI * (1 + 3 * (real)GELU_CUBIC * x * x);
    return l.s + 2 * x * l.s * l.one_minus_s * du;
}

/* y may lie over x, and dx over dy, element for element: a thread reads its elements before it writes them. */
__global__ static void gelu_forward_pack(elem *y, const elem *x, int64_t n) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    int64_t packed = n / PACK * PACK;
    for (int64_t i = thread * PACK; i < packed; i += threads * PACK) {
        pack v = pack_load(x + i);
        for (int j = 0; j < PACK; j++) v.x[j] = store(gelu(load(v.x[j])));
        pack_store(y + i, v);
    }
    if (packed + thread < n) y[packed + thread] = store(gelu(load(x[packed + thread])));
}

__global__ static void gelu_backward_pack(elem *dx, const elem *dy, const elem *x, int64_t n, int accumulate) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    int64_t packed = n / PACK * PACK;
    for (int64_t i = thread * PACK; i < packed; i += threads * PACK) {
        pack v = pack_load(x + i), d = pack_load(dy + i), old = d;
        if (accumulate) old = pack_load(dx + i);
        for (int j = 0; j < PACK; j++) put(&old.x[j], load(d.x[j]) * gelu_derivative(load(v.x[j])), accumulate);
        pack_store(dx + i, old);
    }
    int64_t i = packed + thread;
    if (i < n) put(dx + i, load(dy[i]) * gelu_derivative(load(x[i])), accumulate);
}

enum status CUDA(gelu_forward)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    LAUNCH(gelu_forward_pack, grid_of(n, THREADS * PACK), THREADS, 0, stream_of(call))
    ((elem *)call->out[0].data, (const elem *)call->in[0].data, n);
    return gpu_launched("gelu_forward_pack");
}

enum status CUDA(gelu_backward_input)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    LAUNCH(gelu_backward_pack, grid_of(n, THREADS * PACK), THREADS, 0, stream_of(call))
    ((elem *)call->din[0].data, (const elem *)call->dout[0].data, (const elem *)call->in[0].data, n, accumulates(call, 0));
    return gpu_launched("gelu_backward_pack");
}
