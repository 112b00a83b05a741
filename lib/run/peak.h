/* The denominator of mfu on a CPU: what the cores can do at best, measured, not looked up. */
#ifndef TRIVIUM_RUN_PEAK_H
#define TRIVIUM_RUN_PEAK_H

#include "lib/device/dtype.h"

/** Flops a second of this thread in a loop of independent fused multiply-adds, fp64 or fp32 (best of a few runs, about
 *  20 ms). bf16 and fp16 compute in fp32 and are measured as such. @collective{none} */
double peak_flops_per_core(enum dtype);

#endif
