/* Data parallelism: each replica has the whole model and a share of the batch; gradients are all-reduced. See dp.c. */
#ifndef TRIVIUM_DP_DP_H
#define TRIVIUM_DP_DP_H

#include "lib/run/technique.h"

extern const struct technique technique_dp;

#endif
