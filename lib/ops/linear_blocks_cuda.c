/* y = x W^T + b, dx = dy W, dW += dy^T x, on tensor cores that multiply by the scales of blocks. See fp8.h, and
 * linear_fp8_cuda.c for the order of operands.
 *
 *   y  (R,K) = x (R,N)    W (K,N)^T           summed over N
 *   dx (R,N) = dy (R,K)   W^T (N,K)^T         summed over K
 *   dW (K,N) = dy^T (K,R) x^T (N,R)^T         summed over R
 *
 * Each operand is cast for its product, with blocks along what the product sums (linear_blocks_cuda.cu). The codes of x
 * for dW exist, transposed already: (N,R). Their kept scales take N R / size bytes, and only become tiles here. The
 * scales of tensors (NVFP4) are out of the sum, in alpha.
 *
 * cuBLASLt has E4M3 and E5M2 with 32 numbers a scale in E8M0, and E2M1 with 16 a scale in E4M3. It has no E2M1 in E8M0
 * (MXFP4), which mixed_precision/fp8.c refuses. */
#include "lib/ops/fp8_cuda.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"

kernel cast_blocks_forward_cuda, linear_blocks_forward_cuda, linear_blocks_backward_input_cuda,
    linear_blocks_backward_weight_cuda;
DECLARE_KERNEL(linear_bias_gradient, cuda);
extern blocks_cast_kernel blocks_cast_cuda_fp32, blocks_cast_cuda_bf16;
extern blocks_tile_kernel blocks_tile_cuda_fp32;

static blocks_cast_kernel *const cast[N_DTYPES] = {[FP32] = blocks_cast_cuda_fp32, [BF16] = blocks_cast_cuda_bf16};
static kernel *const bias_gradient[N_DTYPES] = {
    [FP32] = linear_bias_gradient_cuda_fp32, [BF16] = linear_bias_gradient_cuda_bf16};

/* A row's product, and its two operands' codes and scales in scratch. */
struct product { struct gemm g; uint8_t *a, *b, *a_scale, *b_scale; };

static struct product product_of(const struct call *call, enum row_kind kind, enum fp8_tensor a, enum fp8_tensor b) {
    struct fp8_work w = blocks_work(call, kind);
    uint8_t *work = call->work;
    struct product p = {linear_gemm(call, kind), work + w.a, work + w.b, work + w.a_scale, work + w.b_scale};
    p.g.fp8 = p.g.transpose_b = true;
    p.g.transpose_a = false;
    p.g.a_code = blocks_format(call, a).element;
    p.g.b_code = blocks_format(call, b).element;
    p.g.block = call->step->blocks.operand.size;
    p.g.a_scale = p.a_scale, p.g.b_scale = p.b_scale;
    p.g.alpha = blocks_alpha(call, a, b, kind == ROW_BACKWARD_WEIGHT ? FOR_DW : FOR_Y);
    return p;
}

static enum status cast_to(const struct call *call, enum fp8_tensor t, enum block_product p, const struct tensor *x,
                           int64_t columns, uint8_t *code, uint8_t *scale) {
    struct blocks_cast c = {t, p, x->data, type_n(x->type) / columns, columns, code, scale};
    return cast[op_dtype(call)](call, &c);
}

enum status cast_blocks_forward_cuda(const struct call *call) {
    const struct axis *axis = call->in[0].type->shape.axis;
    int64_t columns = type_n(call->in[0].type) / (axis[0].n * axis[1].n);
    return cast_to(call, FP8_X, FOR_DW, &call->in[0], columns, call->out[0].data, call->out[1].data);
}

enum status linear_blocks_forward_cuda(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_FORWARD, FP8_X, FP8_W);
    const void *bias = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    TRY(op_touch_work(call, ROW_FORWARD));
    TRY(cast_to(call, FP8_X, FOR_Y, &call->in[0], s.N, p.a, p.a_scale));
    TRY(cast_to(call, FP8_W, FOR_Y, &call->weight[0], s.N, p.b, p.b_scale));
    return gemm_cuda_run(&p.g, call->device, p.a, p.b, bias, call->out[0].data, call->work);
}

enum status linear_blocks_backward_input_cuda(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_BACKWARD_INPUT, FP8_DY, FP8_W);
    TRY(op_touch_work(call, ROW_BACKWARD_INPUT));
    TRY(cast_to(call, FP8_DY, FOR_DX, &call->dout[0], s.K, p.a, p.a_scale));
    TRY(cast_to(call, FP8_W, FOR_DX, &call->weight[0], s.N, p.b, p.b_scale));
    return gemm_cuda_run(&p.g, call->device, p.a, p.b, NULL, call->din[0].data, call->work);
}

/* The bias gradient sums dy itself, not its codes. */
enum status linear_blocks_backward_weight_cuda(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product p = product_of(call, ROW_BACKWARD_WEIGHT, FP8_DY, FP8_X);
    p.g.c_dtype = call->dweight[0].type->dtype;
    TRY(op_touch_work(call, ROW_BACKWARD_WEIGHT));
    TRY(cast_to(call, FP8_DY, FOR_DW, &call->dout[0], s.K, p.a, p.a_scale));
    TRY(blocks_tile_cuda_fp32(call, call->in[2].data, s.N, s.R / p.g.block, p.b_scale));
    TRY(gemm_cuda_run(&p.g, call->device, p.a, call->in[1].data, NULL, call->dweight[0].data, call->work));
    return call->step->n_weight > 1 ? bias_gradient[op_dtype(call)](call) : OK;
}
