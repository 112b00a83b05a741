/* The table of fusions, ended by a row of zeros; see fusion.h. */
#pragma once

#include "lib/ops/fusion.h"

extern const struct fusion fusions[];
