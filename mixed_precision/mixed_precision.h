/* Mixed precision: bf16 or fp16 to compute with, fp32 to remember with. See mixed_precision.c. */
#ifndef TRIVIUM_MIXED_PRECISION_MIXED_PRECISION_H
#define TRIVIUM_MIXED_PRECISION_MIXED_PRECISION_H

#include "lib/run/technique.h"

extern const struct technique technique_mixed_precision;

#endif
