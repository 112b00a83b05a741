/* Forward: y = gelu(u), u = x W^T + b, by cuBLASLt's GELU epilogue (gemm_cuda.c). The epilogue also writes u, which
 * gelu's backward reads.
 *
 * The epilogue computes gelu from the unrounded sum u; two separate kernels round u to the element type in between. So
 * the fused y has other bits, and is nearer to the true value by at most |gelu'| <= 1.13 times that rounding. The
 * epilogue's gelu is the tanh form, as ours is.
 *
 * If gelu may write y over u, no later row reads u, and the epilogue does not write u.
 *
 * The two separate kernels run if there is no bias, if cuBLASLt cannot write rows of u's length, or if it offers no
 * algorithm (fp64).
 *
 * If recomputation runs gelu again without the product, gelu reads the rounded u, and its y has other bits.
 *
 * Is it faster? The fusion saves one read of u, but makes the product's epilogue slower. llm.c was slower with it in
 * bf16 and fp32, because cuBLASLt ran a second kernel for the epilogue (pull request 338, 2024). It was faster on an
 * H100 (pull request 653): llm.c's option -ge is on from sm_90. Not measured here yet: compare with `--fuse off`.
 *
 * No header of cuBLASLt states that its gelu is the tanh form, but PyTorch and TensorRT-LLM use it as such.
 *
 * Backward: dx = (dy W) gelu'(x), with W of the next linear layer and gelu's input x, by cuBLASLt's DGELU epilogue. The
 * gradient dy W of gelu's result is not written to memory. The epilogue multiplies the unrounded dy W by gelu', so dx
 * has one rounding less, and other bits. Per element, gelu's own kernel reads x and dy W and writes dx; the epilogue
 * adds only the read of x to the product's traffic. TransformerEngine uses DGELU for its bf16 MLP; not measured here
 * yet.
 *
 * The two separate kernels run if either one adds to an existing gradient, if cuBLASLt cannot read rows of x's length,
 * or if it offers no algorithm.
 *
 * DGELU_BGRAD, which also sums dx's columns, is not used. Those sums are the bias gradient of the linear layer before
 * gelu, a row that a pipeline may run much later, and cuBLASLt writes them in dx's dtype only. */
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
