/* Filling an op's kernel table: one line for each device instead of four entries of three kernels.
 *
 *   DECLARE_KERNELS_FB(gelu, cpu);              declares gelu_forward_cpu_fp64, gelu_backward_input_cpu_fp64, ...
 *   .kernels = {[DEVICE_CPU] = KERNELS_FB(gelu, cpu)}
 *
 * The letters say which kernels the op has: F forward, B backward_input, W backward_weight. */
#pragma once

/* An entry of the table that only builds with CUDA have: .kernels = {[DEVICE_CPU] = ..., WITH_CUDA([DEVICE_CUDA] =
 * ...)} */
#ifdef TRIVIUM_CUDA
#define WITH_CUDA(...) __VA_ARGS__
#else
#define WITH_CUDA(...)
#endif

/* One set of kernels for all element types: EVERY_DTYPE({forward, backward_input, NULL}). */
#define EVERY_DTYPE(...) {[FP64] = __VA_ARGS__, [FP32] = __VA_ARGS__, [BF16] = __VA_ARGS__, [FP16] = __VA_ARGS__}

#define DECLARE_KERNEL(function, device) \
    kernel function##_##device##_fp64, function##_##device##_fp32, function##_##device##_bf16, \
        function##_##device##_fp16
#define DECLARE_KERNELS_FB(op, device)                                                                                 \
    DECLARE_KERNEL(op##_forward, device);                                                                              \
    DECLARE_KERNEL(op##_backward_input, device)
#define DECLARE_KERNELS_FW(op, device)                                                                                 \
    DECLARE_KERNEL(op##_forward, device);                                                                              \
    DECLARE_KERNEL(op##_backward_weight, device)
#define DECLARE_KERNELS_FBW(op, device)                                                                                \
    DECLARE_KERNELS_FB(op, device);                                                                                    \
    DECLARE_KERNEL(op##_backward_weight, device)

#define KERNELS_FB_OF(op, suffix) {op##_forward_##suffix, op##_backward_input_##suffix, 0}
#define KERNELS_FW_OF(op, suffix) {op##_forward_##suffix, 0, op##_backward_weight_##suffix}
#define KERNELS_FBW_OF(op, suffix) {op##_forward_##suffix, op##_backward_input_##suffix, op##_backward_weight_##suffix}
#define KERNELS_FB(op, device)                                                                                         \
    {[FP64] = KERNELS_FB_OF(op, device##_fp64), [FP32] = KERNELS_FB_OF(op, device##_fp32),                             \
     [BF16] = KERNELS_FB_OF(op, device##_bf16), [FP16] = KERNELS_FB_OF(op, device##_fp16)}
#define KERNELS_FW(op, device)                                                                                         \
    {[FP64] = KERNELS_FW_OF(op, device##_fp64), [FP32] = KERNELS_FW_OF(op, device##_fp32),                             \
     [BF16] = KERNELS_FW_OF(op, device##_bf16), [FP16] = KERNELS_FW_OF(op, device##_fp16)}
#define KERNELS_FBW(op, device)                                                                                        \
    {[FP64] = KERNELS_FBW_OF(op, device##_fp64), [FP32] = KERNELS_FBW_OF(op, device##_fp32),                           \
     [BF16] = KERNELS_FBW_OF(op, device##_bf16), [FP16] = KERNELS_FBW_OF(op, device##_fp16)}
