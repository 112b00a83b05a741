/* The denominator of mfu: the peak of the cores, measured, or the peak of a GPU by its data sheet. */
#pragma once

#include "lib/device/dtype.h"

/** Measure the flops per second of this thread in a loop of independent fused multiply-adds in fp64 or fp32: the best
 *  of a few runs, about 20 ms. bf16 is measured with its own instructions, if the target processor has them (AMX,
 *  AVX512_BF16). Otherwise, and for fp16, the result is that of fp32, because such products are computed in fp32.
 *  @collective{none} */
double peak_flops_per_core(enum dtype);

/** Dense flops per second of a GPU's matrix products; 0 if the table lacks the GPU. name: as the driver reports it.
 *  fp32 is without TF32, which Trivium does not use.  @source NVIDIA's data sheets
 *  @collective{none} */
double peak_flops_of_gpu(const char *name, enum dtype);

/* ---- How fast a core multiplies and adds, by the instruction: loops without memory, measured. ---- */

/** Flops per second of this thread: the best of the loops, some 50 us each, that `seconds` have room for, at least one.
 *  fma: in fp32; pairs of bf16, by vectors (AVX512_BF16) and by AMX's registers. 0 if the program is compiled without
 *  the instructions; rate_of_amx only if the system has granted the registers (gemm_amx.c).
 *  @errors none */
double rate_of_fma(double seconds);
double rate_of_fma_fp64(double seconds);
double rate_of_pairs(double seconds);
double rate_of_amx(double seconds);
