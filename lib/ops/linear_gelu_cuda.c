/* y = gelu(x W^T + b), with the value before gelu kept where its backward reads it: cuBLASLt's GELU epilogue (gemm_cuda.c).
 *
 * The epilogue's gelu is the tanh form, as ours. It takes the sum before it is rounded to the element type, where the two
 * kernels apart would take it after: y is nearer to the true value by up to a rounding of the sum, |gelu'| <= 1.13, and has
 * other bits.
 *
 * Where gelu may write over its input, nobody reads the input later, and it is not kept.
 *
 * Apart: without a bias; rows of a length that the library cannot keep; and whenever it offers no algorithm (fp64).
 *
 * Does it pay? It saves reading the sum once, a fourth of the traffic of product and gelu apart, and slows the product's own
 * epilogue. llm.c measured a loss in bf16 on an A100, and fuses only where asked to (-ge; pull request 338). To be measured here
 * (`--fuse off`) before it is believed. */
#include "lib/ops/fusion.h"
#include "lib/ops/gemm.h"
#include "lib/ops/linear.h"

fused_kernel linear_gelu_forward_cuda;

enum status linear_gelu_forward_cuda(const struct call *first, const struct call *second) {
    struct gemm g = linear_gemm(first, ROW_FORWARD);
    void *before = first->out[0].data, *y = second->out[0].data;
    bool kept = before != y, done = false;
    if (first->step->n_weight > 1 && (!kept || gemm_cuda_can_keep(&g, before)))
        TRY(gemm_cuda_gelu(&g, first->device, first->in[0].data, first->weight[0].data, first->weight[1].data,
                           kept ? before : NULL, y, first->work, &done));
    if (done) return OK;
    TRY(op_run(first, ROW_FORWARD));
    return op_run(second, ROW_FORWARD);
}
