#include "lib/ops/fusion.h"

#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/gelu.h"
#include "lib/ops/kernels.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"

#ifdef TRIVIUM_CUDA
#define DECLARE_FUSED(name) extern fused_kernel name##_cuda_fp64, name##_cuda_fp32, name##_cuda_bf16, name##_cuda_fp16
#define FUSED(name)                                                                                                    \
    {[DEVICE_CUDA] = {[FP64] = name##_cuda_fp64, [FP32] = name##_cuda_fp32,                                            \
                      [BF16] = name##_cuda_bf16, [FP16] = name##_cuda_fp16}}
extern fused_kernel linear_gelu_forward_cuda, linear_gelu_backward_cuda, linear_weight_and_bias_cuda;
#define BY_CUBLASLT(name) [DEVICE_CUDA] = {[FP32] = name##_cuda, [BF16] = name##_cuda, [FP16] = name##_cuda}
DECLARE_FUSED(residual_layernorm_forward);
DECLARE_FUSED(layernorm_backward);
DECLARE_FUSED(bias_dropout_residual_backward);
#endif

const struct fusion fusions[] = {
    WITH_CUDA({&op_linear, &op_gelu, ROW_FORWARD, {BY_CUBLASLT(linear_gelu_forward)}}, )
    WITH_CUDA({&op_bias_dropout_residual, &op_layernorm, ROW_FORWARD, FUSED(residual_layernorm_forward)}, )
    WITH_CUDA({&op_layernorm, &op_layernorm, ROW_BACKWARD_WEIGHT, FUSED(layernorm_backward)}, )
    WITH_CUDA({&op_bias_dropout_residual, &op_bias_dropout_residual, ROW_BACKWARD_WEIGHT,
               FUSED(bias_dropout_residual_backward)}, )
    WITH_CUDA({&op_linear, NULL, ROW_BACKWARD_WEIGHT, {BY_CUBLASLT(linear_weight_and_bias)}}, )
    {&op_linear, &op_gelu, ROW_BACKWARD_INPUT, {[DEVICE_CPU] = {NULL}, WITH_CUDA(BY_CUBLASLT(linear_gelu_backward))}},
    {0},
};
