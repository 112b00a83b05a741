/* y = max(x, 0). See activation.h. Memory-bound; one element per thread. gelu_cuda.cu shows how such a kernel
 * reaches the GPU's bandwidth. */
#include "lib/ops/cuda.h"
#include "lib/ops/activation.h"

extern "C" { kernel CUDA(relu_forward), CUDA(relu_backward_input); }

enum { THREADS = 256 };

__global__ static void relu_forward_elementwise(elem *y, const elem *x, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = store(load(x[i]) > 0 ? load(x[i]) : 0 * load(x[i]));
}

__global__ static void relu_backward_elementwise(elem *dx, const elem *dy, const elem *y, int64_t n, int accumulate) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) put(dx + i, load(y[i]) > 0 ? load(dy[i]) : 0 * load(y[i]), accumulate);
}

enum status CUDA(relu_forward)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(relu_forward_elementwise, (unsigned)ceil_div(n, THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->out[0].data, (const elem *)call->in[0].data, n);
}

enum status CUDA(relu_backward_input)(const struct call *call) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(relu_backward_elementwise, (unsigned)ceil_div(n, THREADS), THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (const elem *)call->dout[0].data, (const elem *)call->out[0].data, n,
                    accumulates(call, 0));
}
