/* Products of 16-bit numbers, summed in fp32, by the packed kernel of gemm_packed.h. Three ways:
 *
 *   amx       pairs of bf16 in AMX's registers, up to sixteen times the rate of fp32
 *   pairs     pairs of bf16 in vectors (AVX512_BF16), from half of fp32's rate to twice, by processor
 *   widened   bf16 or fp16, which packing widens to fp32; then at fp32's rate
 *
 * With pairs
 *
 *   sum += a[i,2p+1] b[2p+1,j], then sum += a[i,2p] b[2p,j]        in fp32, for a pair at a time; C is rounded once
 *
 * Each product is added as an FMA adds it, exact and with one rounding to nearest. Subnormal numbers count as zero,
 * results too. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VDPBF16PS.
 *
 * For lib/ops, and for the peak that a run reports (lib/ops/gemm/peak.c). */
#pragma once

#include "lib/ops/gemm/gemm.h"

/** Does this processor multiply pairs of bf16 faster than it multiplies the same numbers as fp32? With AMX it does, if
 *  the system grants the registers. With AVX512_BF16 the two rates are measured at the first call, some milliseconds;
 *  processors have 0.5, 1 or 2 times fp32's, and from 1.4 on the answer is yes. @errors none */
bool gemm_bf16_pairs(void);

enum gemm_way { BY_WIDENING, BY_PAIRS, BY_AMX };

/** A way. can: false if the program is compiled without the instructions, or the system does not grant them. */
struct gemm_narrow {
    enum gemm_way way;
    /** Bytes of scratch: 0 unless A is transposed, or the depth is above 2048 (widened) or 4096; then each of n_threads
     *  has some, and no more OpenMP threads may run it. */
    int64_t (*work)(const struct gemm *, int n_threads);
    /** As gemm_run: a, b and bias are of ab_dtype, c is of c_dtype. Each thread takes 0.5 MiB of its stack.
     *  @param work `work` bytes */
    void (*run)(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);
    bool (*can)(void);
};
extern const struct gemm_narrow gemm_amx, gemm_pairs, gemm_widened_bf16, gemm_widened_fp16;

/** The way of bf16 on a processor with these rates (peak.h); amx: it has the registers. */
enum gemm_way gemm_way_of_rates(double fma, double pairs, bool amx);

/** The way of a product whose ab_dtype is bf16 or fp16, on this machine. */
const struct gemm_narrow *gemm_narrow_of(enum dtype ab_dtype);
