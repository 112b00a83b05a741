/* Data parallelism: every replica has the whole model and its share of the batch; gradients are summed. See dp.c. */
#ifndef TRIVIUM_DP_DP_H
#define TRIVIUM_DP_DP_H

#include "lib/run/technique.h"

extern const struct technique technique_dp;

#endif
