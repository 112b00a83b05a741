/* The table of fusions, ended by a row of zeros; see fusion.h. */
#ifndef TRIVIUM_OPS_FUSION_TABLE_H
#define TRIVIUM_OPS_FUSION_TABLE_H

#include "lib/ops/fusion.h"

extern const struct fusion fusions[];

#endif
