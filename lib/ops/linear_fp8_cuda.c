/* y = x W^T + b, dx = dy W, dW += dy^T x, on tensor cores in fp8. See fp8.h, and gemm_cuda.c for "TN".
 *
 * Tensor cores need the summed axis last in both operands. So forward takes x and W as stored, dx takes W transposed,
 * and dW takes dy and x transposed. The casts of W and dy write codes in the order that the product reads. The codes of
 * x exist already; for dW they are transposed.
 *
 *   y  (R,K) = x (R,N)    W (K,N)^T           summed over N
 *   dx (R,N) = dy (R,K)   W^T (N,K)^T         summed over K
 *   dW (K,N) = dy^T (K,R) x^T (N,R)^T         summed over R
 *
 * Forward uses the fast sums, with fewer digits than fp32, because their error is smaller than that of the codes.
 * Backward uses full fp32 sums. TransformerEngine does both in the same way. */
#include "lib/ops/fp8_cuda.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"

kernel linear_fp8_forward_cuda, linear_fp8_backward_input_cuda, linear_fp8_backward_weight_cuda;
DECLARE_KERNEL(linear_bias_gradient, cuda);
extern fp8_cast_kernel fp8_cast_cuda_fp32, fp8_cast_cuda_bf16;
extern fp8_turn_kernel fp8_turn_cuda_fp32;

static fp8_cast_kernel *const cast[N_DTYPES] = {[FP32] = fp8_cast_cuda_fp32, [BF16] = fp8_cast_cuda_bf16};
static kernel *const bias_gradient[N_DTYPES] = {
    [FP32] = linear_bias_gradient_cuda_fp32, [BF16] = linear_bias_gradient_cuda_bf16};

/* A row's product, and its two operands' codes in scratch. */
struct product { struct gemm g; uint8_t *a, *b; };

static struct product product_of(const struct call *call, enum row_kind kind, enum fp8_tensor a, enum fp8_tensor b) {
    struct fp8_work w = fp8_work(call, kind);
    struct product p = {linear_gemm(call, kind), (uint8_t *)call->work + w.a, (uint8_t *)call->work + w.b};
    p.g.fp8 = p.g.transpose_b = true;
    p.g.transpose_a = false;
    p.g.a_code = a == FP8_DY ? FP8_E5M2 : FP8_E4M3;
    p.g.b_code = FP8_E4M3;
    p.g.fast_sums = kind == ROW_FORWARD;
    p.g.alpha = 1 / (fp8_scale(call, a) * fp8_scale(call, b));
    return p;
}

enum status linear_fp8_forward_cuda(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_FORWARD, FP8_X, FP8_W);
    const void *bias = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    TRY(op_touch_work(call, ROW_FORWARD));
    TRY(cast[op_dtype(call)](call, &(struct fp8_cast){FP8_W, call->weight[0].data, s.K, s.N, p.b, NULL}));
    return gemm_cuda_run(&p.g, call->device, call->in[0].data, p.b, bias, call->out[0].data, call->work);
}

enum status linear_fp8_backward_input_cuda(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_BACKWARD_INPUT, FP8_DY, FP8_W);
    TRY(op_touch_work(call, ROW_BACKWARD_INPUT));
    TRY(cast[op_dtype(call)](call, &(struct fp8_cast){FP8_DY, call->dout[0].data, s.R, s.K, p.a, NULL}));
    TRY(cast[op_dtype(call)](call, &(struct fp8_cast){FP8_W, call->weight[0].data, s.K, s.N, NULL, p.b}));
    return gemm_cuda_run(&p.g, call->device, p.a, p.b, NULL, call->din[0].data, call->work);
}

enum status linear_fp8_backward_weight_cuda(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_BACKWARD_WEIGHT, FP8_DY, FP8_X);
    p.g.c_dtype = call->dweight[0].type->dtype;
    TRY(op_touch_work(call, ROW_BACKWARD_WEIGHT));
    TRY(cast[op_dtype(call)](call, &(struct fp8_cast){FP8_DY, call->dout[0].data, s.R, s.K, NULL, p.a}));
    TRY(fp8_turn_cuda_fp32(call, call->in[0].data, s.R, s.N, p.b));
    TRY(gemm_cuda_run(&p.g, call->device, p.a, p.b, NULL, call->dweight[0].data, call->work));
    return call->step->n_weight > 1 ? bias_gradient[op_dtype(call)](call) : OK;
}
