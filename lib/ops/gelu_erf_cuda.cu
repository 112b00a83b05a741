/* y = x Phi(x). See gelu.h. Memory-bound, except for the 30 or so instructions of erfc. 16 bytes per thread. */
#include "lib/ops/gelu.h"
#include "lib/ops/groups_cuda.h"

extern "C" { kernel CUDA(gelu_erf_forward), CUDA(gelu_erf_backward_input); }

enum { THREADS = 256 };

__device__ static inline real distribution(real x) { return (real)0.5 * erfc(-(real)GELU_SQRT_HALF * x); }
__device__ static inline real density(real x) { return (real)GELU_1_OVER_SQRT_2_PI * exp(-(real)0.5 * x * x); }
__device__ static inline real derivative(real x) { return distribution(x) + x * density(x); }

/* y may be x, and dx may be dy, because a thread reads its elements before it writes them. The first threads of the
 * grid compute the last n % PACK elements, one each. */
__global__ static void __launch_bounds__(THREADS) gelu_erf_forward_pack(elem *y, const elem *x, int64_t n) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = thread * PACK; i + PACK <= n; i += threads * PACK) {
        pack v = pack_load(x + i);
        for (int j = 0; j < PACK; j++) v.x[j] = store(load(v.x[j]) * distribution(load(v.x[j])));
        store_whole((pack *)(y + i), v);
    }
    int64_t i = n / PACK * PACK + thread;
    if (i < n) y[i] = store(load(x[i]) * distribution(load(x[i])));
}

__global__ static void __launch_bounds__(THREADS)
gelu_erf_backward_pack(elem *dx, const elem *dy, const elem *x, int64_t n, int accumulate) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = thread * PACK; i + PACK <= n; i += threads * PACK) {
        pack v = pack_load(x + i), d = pack_load(dy + i), old = d;
        if (accumulate) old = pack_load(dx + i);
        for (int j = 0; j < PACK; j++) put(&old.x[j], load(d.x[j]) * derivative(load(v.x[j])), accumulate);
        store_whole((pack *)(dx + i), old);
    }
    int64_t i = n / PACK * PACK + thread;
    if (i < n) put(dx + i, load(dy[i]) * derivative(load(x[i])), accumulate);
}

enum status CUDA(gelu_erf_forward)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(gelu_erf_forward_pack, grid_of(n, THREADS * PACK), THREADS, 0, stream_of(call),
                    (elem *)call->out[0].data, (const elem *)call->in[0].data, n);
}

enum status CUDA(gelu_erf_backward_input)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(gelu_erf_backward_pack, grid_of(n, THREADS * PACK), THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (const elem *)call->dout[0].data, (const elem *)call->in[0].data, n,
                    accumulates(call, 0));
}
