/* How fast a core multiplies and adds, by the instruction: loops without memory, measured. */
#pragma once

/** Flops per second of this thread: the best of the loops, some 50 us each, that `seconds` have room for, at least one.
 *  fma: in fp32; pairs of bf16, by vectors (AVX512_BF16) and by AMX's registers. 0 if the program is compiled without
 *  the instructions; rate_of_amx only if the system has granted the registers (gemm_amx.c).
 *  @errors none */
double rate_of_fma(double seconds);
double rate_of_fma_fp64(double seconds);
double rate_of_pairs(double seconds);
double rate_of_amx(double seconds);
