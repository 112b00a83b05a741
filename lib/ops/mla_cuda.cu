/* The moves of multi-head latent attention. See mla.h. Bound by memory; a thread takes an element at a time. In the
 * backward of `keys` one thread adds a channel of the shared key up over all heads, in order. */
#include "lib/ops/cuda.h"
#include "lib/ops/mla.h"

extern "C" {
kernel CUDA(mla_split_forward), CUDA(mla_split_backward_input), CUDA(mla_keys_forward), CUDA(mla_keys_backward_input),
    CUDA(mla_values_forward), CUDA(mla_values_backward_input);
}

enum { THREADS = 256 };

#define EACH(i, n)                                                                                                     \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

/* to: false x -> [c ; s]; true back, with accumulation */
__global__ static void __launch_bounds__(THREADS)
mla_split_by_element(elem *x, elem *c, elem *shared, struct mla_sizes s, int back, int accumulate) {
    int64_t width = s.latent + s.shared;
    EACH(i, s.n * width) {
        int64_t t = i / width, at = i % width;
        elem *part = at < s.latent ? c + t * s.latent + at : shared + t * s.shared + at - s.latent;
        if (back) put(x + i, load(*part), accumulate);
        else *part = x[i];
    }
}

__global__ static void __launch_bounds__(THREADS)
mla_keys_by_element(elem *kv, const elem *x, const elem *shared, struct mla_sizes s) {
    int64_t W = s.before + s.value;
    EACH(i, s.n * 2 * s.heads * s.D) {
        int64_t d = i % s.D, h = i / s.D % s.heads, is_value = i / s.D / s.heads % 2, t = i / s.D / s.heads / 2;
        const elem *own = x + (t * s.heads + h) * W;
        if (is_value) kv[i] = d < s.value ? own[s.before + d] : store((real)0);
        else kv[i] = d < s.before ? own[d] : shared[t * s.shared + d - s.before];
    }
}

__global__ static void __launch_bounds__(THREADS)
mla_keys_backward_by_element(elem *dx, elem *dshared, const elem *dkv, struct mla_sizes s, int add, int add_shared) {
    int64_t W = s.before + s.value, of_keys = s.heads * s.D, own = s.n * s.heads * W;
    EACH(i, own) {
        int64_t w = i % W, h = i / W % s.heads, t = i / W / s.heads;
        const elem *dk = dkv + t * 2 * of_keys + h * s.D;
        put(dx + i, load(w < s.before ? dk[w] : dk[of_keys + w - s.before]), add);
    }
    EACH(i, s.n * s.shared) {
        const elem *dk = dkv + i / s.shared * 2 * of_keys + s.before + i % s.shared;
        real sum = 0;
        for (int64_t h = 0; h < s.heads; h++) sum += load(dk[h * s.D]);
        put(dshared + i, sum, add_shared);
    }
}

__global__ static void __launch_bounds__(THREADS)
mla_values_by_element(elem *u, const elem *y, struct mla_sizes s) {
    EACH(i, s.n * s.heads * s.value) u[i] = y[i / s.value * s.D + i % s.value];
}

__global__ static void __launch_bounds__(THREADS)
mla_values_backward_by_element(elem *dy, const elem *du, struct mla_sizes s, int add) {
    EACH(i, s.n * s.heads * s.D) {
        int64_t d = i % s.D;
        put(dy + i, d < s.value ? load(du[i / s.D * s.value + d]) : (real)0, add);
    }
}

enum status CUDA(mla_split_forward)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    return LAUNCHED(mla_split_by_element, grid_of(s.n * (s.latent + s.shared), THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->in[0].data, (elem *)call->out[0].data, (elem *)call->out[1].data, s, 0, 0);
}
enum status CUDA(mla_split_backward_input)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    return LAUNCHED(mla_split_by_element, grid_of(s.n * (s.latent + s.shared), THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (elem *)call->dout[0].data, (elem *)call->dout[1].data, s, 1,
                    accumulates(call, 0));
}

enum status CUDA(mla_keys_forward)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    return LAUNCHED(mla_keys_by_element, grid_of(s.n * 2 * s.heads * s.D, THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->out[0].data, (const elem *)call->in[0].data, (const elem *)call->in[1].data, s);
}
enum status CUDA(mla_keys_backward_input)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    return LAUNCHED(mla_keys_backward_by_element, grid_of(s.n * s.heads * (s.before + s.value), THREADS), THREADS, 0,
                    stream_of(call), (elem *)call->din[0].data, (elem *)call->din[1].data,
                    (const elem *)call->dout[0].data, s, accumulates(call, 0), accumulates(call, 1));
}

enum status CUDA(mla_values_forward)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    return LAUNCHED(mla_values_by_element, grid_of(s.n * s.heads * s.value, THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->out[0].data, (const elem *)call->in[0].data, s);
}
enum status CUDA(mla_values_backward_input)(const struct call *call) {
    struct mla_sizes s = mla_sizes(call);
    return LAUNCHED(mla_values_backward_by_element, grid_of(s.n * s.heads * s.D, THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (const elem *)call->dout[0].data, s, accumulates(call, 0));
}
