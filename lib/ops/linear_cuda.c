/* y = x W^T + b, dx = dy W, dW += dy^T x, db += sum of the rows of dy. See linear.h.
 *
 * The products are cuBLASLt's (gemm_cuda.c), the bias rides on the first as its epilogue. It has an epilogue for db too
 * (BGRADB), which does not fit: it overwrites where microbatches must add up, and only in the type of dW. So db is
 * summed by kernels of our own, linear_cuda.cu; they read dy once more, which costs 1 / N of what the product reads and
 * writes. */
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"

kernel linear_forward_cuda, linear_backward_input_cuda, linear_backward_weight_cuda;
DECLARE_KERNEL(linear_bias_gradient, cuda);

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
