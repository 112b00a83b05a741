/* Causal attention by tiles, on the GPU: see attention.h for the formulas. This file chooses the kernels:
 *
 *   bf16, fp16   cuDNN's where it can and may (attention_cudnn.h), else the project's own flash attention on tensor
 *                cores (attention_flash_wmma_*_cuda.cu)
 *   fp32, fp64   the same algorithm without tensor cores (attention_flash_plain_cuda.cu)
 *
 * and makes delta[t] = dy[t] . y[t], which every backward kernel of ours reads: one number for each query and head. */
#include "lib/ops/attention/attention_cuda.h"
#include "lib/ops/attention/attention_cudnn.h"

extern "C" { kernel CUDA(attention_blocked_forward), CUDA(attention_blocked_backward_input); }

enum { THREADS = 256 };

/* y and dy are rows of D numbers, (B,T,H) of them; delta is (B,H,T). `lanes` neighbours, a power of two, share a row.
 * Every thread comes to the shuffles, those after the last row too. */
__global__ static void __launch_bounds__(THREADS)
attention_delta_lanes_per_row(real *delta, const elem *y, const elem *dy, struct attention_sizes s, int lanes,
                              int packed) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = thread / lanes, n = s.B * s.T * s.H;
    int D = (int)s.D, part = (int)(thread % lanes);
    real sum = 0;
    if (row < n && packed)
        for (int d = part * PACK; d < D; d += lanes * PACK) {
            pack a = pack_load(y + row * D + d), b = pack_load(dy + row * D + d);
            for (int i = 0; i < PACK; i++) sum += load(a.x[i]) * load(b.x[i]);
        }
    if (row < n && !packed)
        for (int d = part; d < D; d += lanes) sum += load(y[row * D + d]) * load(dy[row * D + d]);
    for (int d = lanes / 2; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (row < n && part == 0) delta[(row / (s.T * s.H) * s.H + row % s.H) * s.T + row / s.H % s.T] = sum;
}

/* As many lanes as a row has packs (or elements), rounded up to a power of two. */
static int lanes_of(const struct attention *a) {
    int64_t pieces = a->packed ? a->s.D / PACK : a->s.D;
    int lanes = 1;
    while (lanes < 32 && lanes < pieces) lanes *= 2;
    return lanes;
}

static enum status make_delta(const struct call *call, real *delta) {
    struct attention a = attention_of(call);
    int64_t n = a.s.B * a.s.T * a.s.H;
    int lanes = lanes_of(&a);
    LAUNCH(attention_delta_lanes_per_row, (unsigned)ceil_div(n * lanes, THREADS), THREADS, 0, stream_of(call))
    (delta, (const elem *)call->out[0].data, (const elem *)call->dout[0].data, a.s, lanes, a.packed);
    return gpu_launched("attention_delta_lanes_per_row");
}

/* Scratch has room for either core, which is more than one of them uses. */
enum status CUDA(attention_blocked_forward)(const struct call *call) {
    bool by_cudnn;
    TRY(op_touch_work(call, ROW_FORWARD));
    TRY(attention_cudnn_usable(call, ROW_FORWARD, &by_cudnn));
    return by_cudnn ? attention_cudnn_forward(call) : CUDA(attention_flash_forward)(call);
}

enum status CUDA(attention_blocked_backward_input)(const struct call *call) {
    bool by_cudnn;
    TRY(op_touch_work(call, ROW_BACKWARD_INPUT));
    TRY(attention_cudnn_usable(call, ROW_BACKWARD_INPUT, &by_cudnn));
    if (by_cudnn) return attention_cudnn_backward(call);
    TRY(make_delta(call, (real *)call->work));
    return CUDA(attention_flash_backward)(call, (const real *)call->work);
}
