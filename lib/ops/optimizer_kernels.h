/* Declarations that optimizer.c, the optimizers' rows and their kernels share. */
#pragma once

#include "lib/ops/kernels.h"
#include "lib/ops/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Declare a row's kernels for the four element types: DECLARE_OPTIMIZER(adamw). Name them in its row:
 * OPTIMIZER_KERNELS(adamw). */
#define DECLARE_OPTIMIZER(f)                                                            \
    optimizer_cpu_kernel f##_cpu_fp64, f##_cpu_fp32, f##_cpu_bf16, f##_cpu_fp16;        \
    optimizer_cuda_launcher f##_cuda_fp64, f##_cuda_fp32, f##_cuda_bf16, f##_cuda_fp16
#define OPTIMIZER_KERNELS_OF(f, device)                                                 \
    {[FP64] = f##_##device##_fp64, [FP32] = f##_##device##_fp32, [BF16] = f##_##device##_bf16, \
     [FP16] = f##_##device##_fp16}
#define OPTIMIZER_KERNELS(f)                                                            \
    .cpu = OPTIMIZER_KERNELS_OF(f, cpu), WITH_CUDA(.cuda = OPTIMIZER_KERNELS_OF(f, cuda),)

/* optimizer_decide on a CUDA device's stream. multiplier, norm, sum_of_squares, loss: as there, one double each.
 * @errors E_DEVICE */
enum status optimizer_decide_cuda(void *stream, double *multiplier, double *norm, const double *sum_of_squares,
                                  const double *loss, double clip, double unscale);
/* optimizer_inverse_norm on a CUDA device's stream. inverse, sum_of_squares: as there. @errors E_DEVICE */
enum status optimizer_inverse_norm_cuda(void *stream, double *inverse, const double *sum_of_squares, double least);

#ifdef __cplusplus
}
#endif
