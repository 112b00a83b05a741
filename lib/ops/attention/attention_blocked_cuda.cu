/* Causal attention by tiles, on the GPU: see attention.h for the formulas. This file chooses the kernels:
 *
 *   bf16, fp16   cuDNN's, if it supports the pair and the option allows it (attention_cudnn.h), else our own flash
 *                attention on tensor cores (attention_flash_wmma_*_cuda.cu)
 *   fp32, fp64   the same algorithm without tensor cores (attention_flash_plain_cuda.cu)
 *
 * It also computes delta[t] = dy[t] . y[t], one number for each query and head, which all of our backward kernels
 * read. */
#include "lib/ops/attention/attention_cuda.h"
#include "lib/ops/attention/attention_cudnn.h"

extern "C" {
kernel CUDA(attention_blocked_forward), CUDA(attention_blocked_backward_input);
attention_pair_kernel CUDA(attention_pair_forward), CUDA(attention_pair_backward);
}

enum { THREADS = 256 };

/* `lanes` neighboring threads, a power of two, share a row of D numbers of y and of dy; delta is (B,H,Tq). All threads
 * take part in the shuffles, also the threads after the last row. */
__global__ static void __launch_bounds__(THREADS)
attention_delta_lanes_per_row(real *delta, struct attention_pair p, int lanes, int packed) {
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, row = thread / lanes, n = p.B * p.Tq * p.H;
    int64_t h = row % p.H, t = row / p.H % p.Tq, b = row / p.H / p.Tq;
    const elem *y = (const elem *)p.y.at + b * p.y.sample + t * p.y.row + h * p.D;
    const elem *dy = (const elem *)p.dy.at + b * p.dy.sample + t * p.dy.row + h * p.D;
    int D = (int)p.D, part = (int)(thread % lanes);
    real sum = 0;
    if (row < n && packed)
        for (int d = part * PACK; d < D; d += lanes * PACK) {
            pack u = pack_load(y + d), v = pack_load(dy + d);
            for (int i = 0; i < PACK; i++) sum += load(u.x[i]) * load(v.x[i]);
        }
    if (row < n && !packed)
        for (int d = part; d < D; d += lanes) sum += load(y[d]) * load(dy[d]);
    for (int d = lanes / 2; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (row < n && part == 0) delta[(b * p.H + h) * p.Tq + t] = sum;
}

/* The packs (or elements) of a row, rounded up to a power of two. */
static int lanes_of(const struct attention *a) {
    int64_t pieces = a->packed ? a->p.D / PACK : a->p.D;
    int lanes = 1;
    while (lanes < 32 && lanes < pieces) lanes *= 2;
    return lanes;
}

static enum status make_delta(const struct attention *a, real *delta) {
    int64_t n = a->p.B * a->p.Tq * a->p.H;
    int lanes = lanes_of(a);
    return LAUNCHED(attention_delta_lanes_per_row, (unsigned)ceil_div(n * lanes, THREADS), THREADS, 0,
                    pair_stream(&a->p), delta, a->p, lanes, a->packed);
}

/* gradient[h] -= sum over samples and queries of e^(sink - lse) delta. A block has a head, and its threads add up in a
 * fixed order. */
__global__ static void __launch_bounds__(THREADS)
attention_sinks_block_per_head(void *gradient, int gradient_is_real, struct attention a) {
    __shared__ real shared[THREADS / 32];
    int64_t h = blockIdx.x, Tq = a.p.Tq;
    real sink = load(((const elem *)a.p.sinks.logits)[h]), sum = 0;
    for (int64_t i = threadIdx.x; i < a.p.B * Tq; i += THREADS) {
        int64_t row = i / Tq * a.p.H + h, t = i % Tq;
        sum += exp(sink - ((const real *)a.p.lse)[row * a.p.lse_row + t]) * a.delta[row * Tq + t];
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) grad_add(gradient, gradient_is_real, h, -sum);
}

static enum status add_sink_gradients(const struct attention *a) {
    const struct tensor *gradient = &a->p.sinks.gradient;
    if (!a->p.sinks.logits) return OK;
    return LAUNCHED(attention_sinks_block_per_head, (unsigned)a->p.H, THREADS, 0, pair_stream(&a->p), gradient->data,
                    is_real(gradient), *a);
}

/* ---- a pair; the scratch has delta of our own kernels, or cuDNN's workspace ---- */

enum status CUDA(attention_pair_forward)(const struct attention_pair *p) {
    struct attention_verdict verdict;
    TRY(attention_cudnn_usable(p, false, &verdict));
    if (verdict.by_cudnn) return attention_cudnn_forward(p);
    struct attention a = attention_of_pair(p, NULL);
    return CUDA(attention_flash_forward)(&a);
}

enum status CUDA(attention_pair_backward)(const struct attention_pair *p) {
    struct attention_verdict verdict;
    TRY(attention_cudnn_usable(p, true, &verdict));
    if (verdict.by_cudnn) return attention_cudnn_backward(p);
    struct attention a = attention_of_pair(p, (const real *)p->work);
    TRY(make_delta(&a, (real *)p->work));
    TRY(add_sink_gradients(&a));
    return CUDA(attention_flash_backward)(&a);
}

/* ---- the whole sequence ---- */

enum status CUDA(attention_blocked_forward)(const struct call *call) {
    struct attention_pair pair = attention_pair_of(call);
    TRY(op_touch_work(call, ROW_FORWARD));
    return CUDA(attention_pair_forward)(&pair);
}

enum status CUDA(attention_blocked_backward_input)(const struct call *call) {
    struct attention_pair pair = attention_pair_of(call);
    TRY(op_touch_work(call, ROW_BACKWARD_INPUT));
    return CUDA(attention_pair_backward)(&pair);
}
