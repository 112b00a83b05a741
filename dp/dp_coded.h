/* Data parallelism whose gradients travel as codes of fewer bytes. See dp_coded.c. */
#ifndef TRIVIUM_DP_DP_CODED_H
#define TRIVIUM_DP_DP_CODED_H

#include "lib/run/technique.h"

extern const struct technique technique_dp_coded;

#endif
