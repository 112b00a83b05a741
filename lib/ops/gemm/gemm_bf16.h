/* bf16 products on CPUs that multiply pairs of bf16 themselves, by the packed kernel of gemm_packed.h: with AVX512_BF16
 * up to twice the rate of fp32, with AMX (gemm_micro_kernel_amx.h) up to sixteen times; half of its memory, and no
 * widening. Private to gemm.c, but for the first function. With AVX512_BF16
 *
 *   sum += a[i,2p+1] b[2p+1,j], then sum += a[i,2p] b[2p,j]        in fp32, for a pair at a time; C is rounded once
 *
 * Each product is added as an FMA adds it, exact and with one rounding to nearest. Subnormal numbers count as zero,
 * results too. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS. */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** Whether bf16 is multiplied without widening it: the processor that this is compiled for can, and the system lets it.
 *  @errors none */
bool gemm_bf16_is_fast(void);
/** Whether the processor that this is compiled for does this product without widening it. */
bool gemm_bf16_can(const struct gemm *);
/** Scratch bytes: 0 unless A is transposed, or more than 4096 are summed; then there are some for each of n_threads,
 *  and no more OpenMP threads may run it. 0 if it cannot be done this way. */
int64_t gemm_bf16_work(const struct gemm *, int n_threads);
/** As gemm_run: a, b and bias are bf16, c is of c_dtype. Each thread takes 0.5 MiB of its stack.
 *  @param work gemm_bf16_work bytes */
void gemm_bf16_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);
