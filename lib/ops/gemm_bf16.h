/* bf16 products on CPUs that multiply bf16 themselves (AVX512_BF16): twice the rate of fp32, and no widening. Private to gemm.c.
 *
 * oneDNN compiles a kernel for each shape; the kernels are kept, since a training step asks for the same dozen again and again.
 * Pairs of products are added in fp32, and C is rounded once. */
#ifndef TRIVIUM_OPS_GEMM_BF16_H
#define TRIVIUM_OPS_GEMM_BF16_H

#include "lib/ops/gemm.h"

/** Whether this CPU and oneDNN do this product without widening it. With a bias, alpha has to be 1. */
bool gemm_bf16_can(const struct gemm *);
/** Scratch bytes; they depend on the number of OpenMP threads. 0 if it cannot be done this way. */
int64_t gemm_bf16_work(const struct gemm *);
/** As gemm_run: a, b and bias are bf16, c is of c_dtype; work: gemm_bf16_work bytes.
 *  @errors E_DEVICE, E_MEMORY */
enum status gemm_bf16_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);

#endif
