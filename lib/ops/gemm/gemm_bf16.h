/* bf16 products on CPUs that multiply pairs of bf16 themselves, by the packed kernel of gemm_packed.h: with AVX512_BF16
 * up to twice the rate of fp32, with AMX (gemm_micro_kernel_amx.h) up to sixteen times; it needs half of the memory,
 * and no widening. Private to gemm.c, except the first function. With AVX512_BF16
 *
 *   sum += a[i,2p+1] b[2p+1,j], then sum += a[i,2p] b[2p,j]        in fp32, for a pair at a time; C is rounded once
 *
 * Each product is added as an FMA adds it, exact and with one rounding to nearest. Subnormal numbers count as zero,
 * results too. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS. */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** Is bf16 multiplied without widening? True if the target processor can do it, and the system allows it. @errors
 *  none */
bool gemm_bf16_is_fast(void);
/** Can the target processor do this product without widening it? */
bool gemm_bf16_can(const struct gemm *);
/** Bytes of scratch: 0 unless A is transposed, or more than 4096 numbers are summed; then each of n_threads has some,
 *  and no more OpenMP threads may run it. 0 if the product cannot be done without widening. */
int64_t gemm_bf16_work(const struct gemm *, int n_threads);
/** As gemm_run: a, b and bias are bf16, c is of c_dtype. Each thread takes 0.5 MiB of its stack.
 *  @param work gemm_bf16_work bytes */
void gemm_bf16_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);
