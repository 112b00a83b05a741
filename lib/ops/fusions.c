/* Forward only. Backward, layernorm's input gradient goes to the residual stream's gradient, which it is added to and which the
 * bias_dropout_residual below reads: but layernorm's weight gradients are between the two rows. */
#include "lib/ops/fusions.h"

#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/gelu.h"
#include "lib/ops/kernels.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"

#ifdef TRIVIUM_CUDA
extern fused_kernel linear_gelu_forward_cuda, residual_layernorm_forward_cuda_fp64, residual_layernorm_forward_cuda_fp32,
    residual_layernorm_forward_cuda_bf16, residual_layernorm_forward_cuda_fp16;
#endif

const struct fusion fusions[] = {
    WITH_CUDA({&op_linear, &op_gelu, ROW_FORWARD,
               {[DEVICE_CUDA] = {[FP32] = linear_gelu_forward_cuda, [BF16] = linear_gelu_forward_cuda,
                                 [FP16] = linear_gelu_forward_cuda}}}, )
    WITH_CUDA({&op_bias_dropout_residual, &op_layernorm, ROW_FORWARD,
               {[DEVICE_CUDA] = {[FP64] = residual_layernorm_forward_cuda_fp64, [FP32] = residual_layernorm_forward_cuda_fp32,
                                 [BF16] = residual_layernorm_forward_cuda_bf16, [FP16] = residual_layernorm_forward_cuda_fp16}}}, )
    {0},
};
