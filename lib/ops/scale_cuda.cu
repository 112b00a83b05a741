/* y = x by. See scale.h. Memory-bound; one element per thread. gelu_cuda.cu shows how such a kernel reaches the GPU's
 * bandwidth. */
#include "lib/ops/cuda.h"
#include "lib/ops/scale.h"

extern "C" { kernel CUDA(scale_forward), CUDA(scale_backward_input); }

enum { THREADS = 256 };

__global__ static void scale_elementwise(elem *to, const elem *from, int64_t n, real by, int accumulate) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) put(to + i, by * load(from[i]), accumulate);
}

static enum status launch(const struct call *call, void *to, const void *from, int accumulate) {
    int64_t n = type_n(call->in[0].type);
    return LAUNCHED(scale_elementwise, (unsigned)ceil_div(n, THREADS), THREADS, 0, stream_of(call), (elem *)to,
                    (const elem *)from, n, (real)call->step->scale.by, accumulate);
}

enum status CUDA(scale_forward)(const struct call *call) {
    return launch(call, call->out[0].data, call->in[0].data, 0);
}

enum status CUDA(scale_backward_input)(const struct call *call) {
    return launch(call, call->din[0].data, call->dout[0].data, accumulates(call, 0));
}
