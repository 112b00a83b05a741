/* The table of fusions, ended by a row of zeros; see fusion.h. */
#ifndef TRIVIUM_OPS_FUSIONS_H
#define TRIVIUM_OPS_FUSIONS_H

#include "lib/ops/fusion.h"

extern const struct fusion fusions[];

#endif
