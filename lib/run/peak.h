/* The denominator of mfu: the peak of the cores, measured, or the peak of a GPU by its data sheet. */
#pragma once

#include "lib/device/dtype.h"

/** Flops a second of this thread in a loop of independent fused multiply-adds, fp64 or fp32 (best of a few runs, about
 *  20 ms). In bf16: of products of pairs added to fp32, if the processor that this is compiled for has them (AMX,
 *  AVX512_BF16). Otherwise bf16, like fp16, computes in fp32 and is measured as such. @collective{none} */
double peak_flops_per_core(enum dtype);

/** Dense flops per second of a GPU by its driver's name of it, in the precision of matrix products; 0 for one that
 *  is not in the table. fp32 is without TF32, as training here computes.  @source NVIDIA's data sheets 
 *  @collective{none} */
double peak_flops_of_gpu(const char *name, enum dtype);
