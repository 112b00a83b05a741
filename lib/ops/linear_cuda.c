/* y = x W^T + b, dx = dy W, dW += dy^T x, db += sum of the rows of dy. See linear.h.
 *
 * cuBLASLt computes the products (gemm_cuda.c); the first adds the bias in its epilogue. Either our own kernels,
 * linear_cuda.cu, compute db, and read dy once more. Or, as a fusion (fusion.h), the product of dW also sums dy in its
 * epilogue BGRADB. BGRADB sets its result, in dW's dtype, but db must add up over microbatches. So BGRADB writes to
 * scratch behind the workspace, and a small kernel adds the scratch to db. In 16 bits db is then rounded twice, first
 * as a microbatch's sum. TransformerEngine sums its bf16 biases so. Whether BGRADB slows the product is not measured
 * yet. */
#include "lib/ops/fusion.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"

kernel linear_forward_cuda, linear_backward_input_cuda, linear_backward_weight_cuda;
fused_kernel linear_weight_and_bias_cuda;
DECLARE_KERNEL(linear_bias_gradient, cuda);

typedef enum status add_sums_kernel(const struct call *, const void *sums);
extern add_sums_kernel linear_add_sums_cuda_fp32, linear_add_sums_cuda_bf16, linear_add_sums_cuda_fp16;
static add_sums_kernel *const add_sums[N_DTYPES] = {
    [FP32] = linear_add_sums_cuda_fp32, [BF16] = linear_add_sums_cuda_bf16, [FP16] = linear_add_sums_cuda_fp16};

static kernel *const bias_gradient[N_DTYPES] = {
    [FP64] = linear_bias_gradient_cuda_fp64,
    [FP32] = linear_bias_gradient_cuda_fp32,
    [BF16] = linear_bias_gradient_cuda_bf16,
    [FP16] = linear_bias_gradient_cuda_fp16,
};

enum status linear_forward_cuda(const struct call *call) {
    struct gemm g = linear_gemm(call, ROW_FORWARD);
    TRY(op_touch_work(call, ROW_FORWARD));
    const void *bias = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    TRY(gemm_cuda_run(&g, call->device, call->in[0].data, call->weight[0].data, bias, call->out[0].data, call->work));
    return OK;
}

enum status linear_backward_input_cuda(const struct call *call) {
    struct gemm g = linear_gemm(call, ROW_BACKWARD_INPUT);
    TRY(op_touch_work(call, ROW_BACKWARD_INPUT));
    TRY(gemm_cuda_run(&g, call->device, call->dout[0].data, call->weight[0].data, NULL, call->din[0].data, call->work));
    return OK;
}

enum status linear_backward_weight_cuda(const struct call *call) {
    struct gemm g = linear_gemm(call, ROW_BACKWARD_WEIGHT);
    TRY(op_touch_work(call, ROW_BACKWARD_WEIGHT));
    g.c_dtype = call->dweight[0].type->dtype;
    TRY(gemm_cuda_run(&g, call->device, call->dout[0].data, call->in[0].data, NULL, call->dweight[0].data, call->work));
    if (call->step->n_weight > 1) TRY(bias_gradient[g.ab_dtype](call));
    return OK;
}

enum status linear_weight_and_bias_cuda(const struct call *call, const struct call *same) {
    struct gemm g = linear_gemm(call, ROW_BACKWARD_WEIGHT);
    (void)same;
    if (call->step->n_weight < 2) return op_run(call, ROW_BACKWARD_WEIGHT);
    void *sums = (char *)call->work + gemm_cuda_workspace(&g);
    bool done = false;
    TRY(op_touch_work(call, ROW_BACKWARD_WEIGHT));
    g.c_dtype = call->dweight[0].type->dtype;
    TRY(gemm_cuda_bias_gradient(&g, call->device, call->dout[0].data, call->in[0].data, call->dweight[0].data, sums,
                                call->work, &done));
    return done ? add_sums[g.ab_dtype](call, sums) : op_run(call, ROW_BACKWARD_WEIGHT);
}
