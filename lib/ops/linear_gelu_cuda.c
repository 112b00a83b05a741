/* Forward: y = gelu(x W^T + b), with the value before gelu kept where its backward reads it: cuBLASLt's GELU epilogue
 * (gemm_cuda.c).
 *
 * The epilogue's gelu is the tanh form, as ours. It takes the sum before it is rounded to the element type, where the
 * two kernels apart would take it after: y is nearer to the true value by up to a rounding of the sum, |gelu'| <= 1.13,
 * and has other bits.
 *
 * Where gelu may write over its input, the input is not read later, and not kept.
 *
 * Apart: without a bias; rows of a length that the library cannot keep; and whenever it offers no algorithm (fp64).
 *
 * Recomputation that makes gelu again, and not the product, reads the kept sum: its y is not, to the bit, the first
 * one.
 *
 * Does it pay? It saves reading the sum once, and makes the product's own epilogue slower. llm.c found a loss in bf16
 * and fp32, where the library ran a second kernel for the epilogue (pull request 338, 2024), and later a gain on an
 * H100 (653); its -ge is on from sm_90. Not measured here yet: compare with `--fuse off`.
 *
 * That gelu is the tanh form is in no header of the library: PyTorch and TensorRT-LLM use it as such.
 *
 * Backward: dx = (dy W) gelu'(x), of the next linear layer's W and gelu's input x, which forward has kept: cuBLASLt's
 * DGELU epilogue. The gradient of gelu's result is not written. gelu' multiplies the sum before it is rounded, so dx
 * has one rounding less, and other bits. In addition to the product's result, gelu's own kernel moves 3 numbers for
 * each of its elements; of them x is left. TransformerEngine uses this epilogue for its bf16 MLP; not measured here
 * yet.
 *
 * Apart: where either gradient is added to one that is there; rows of a length that the library cannot read; and
 * whenever it offers no algorithm.
 *
 * DGELU_BGRAD, which sums dx's columns besides, is not used: that sum belongs to the weights of the linear layer before
 * gelu, a row that a pipeline may run much later, and the library has it in dx's type alone. */
#include "lib/ops/fusion.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/linear.h"

fused_kernel linear_gelu_forward_cuda, linear_gelu_backward_cuda;

enum status linear_gelu_forward_cuda(const struct call *first, const struct call *second) {
    struct gemm g = linear_gemm(first, ROW_FORWARD);
    void *before = first->out[0].data, *y = second->out[0].data;
    bool kept = before != y, done = false;
    TRY(op_touch_work(first, ROW_FORWARD));
    if (first->step->n_weight > 1 && (!kept || gemm_cuda_can_keep(&g, before)))
        TRY(gemm_cuda_gelu(&g, first->device, first->in[0].data, first->weight[0].data, first->weight[1].data,
                           kept ? before : NULL, y, first->work, &done));
    if (done) return OK;
    TRY(op_run(first, ROW_FORWARD));
    return op_run(second, ROW_FORWARD);
}

enum status linear_gelu_backward_cuda(const struct call *linear, const struct call *gelu) {
    struct gemm g = linear_gemm(linear, ROW_BACKWARD_INPUT);
    const void *x = gelu->in[0].data;
    bool done = false;
    TRY(op_touch_work(linear, ROW_BACKWARD_INPUT));
    if (!(linear->accumulate & 1) && !(gelu->accumulate & 1) && gemm_cuda_can_keep(&g, x))
        TRY(gemm_cuda_dgelu(&g, linear->device, linear->dout[0].data, linear->weight[0].data, x, gelu->din[0].data,
                            linear->work, &done));
    if (done) return OK;
    TRY(op_run(linear, ROW_BACKWARD_INPUT));
    return op_run(gelu, ROW_BACKWARD_INPUT);
}
