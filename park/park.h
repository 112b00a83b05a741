/* Parking: activations wait in host memory from their last use in forward to their first in backward. See park.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_park;

enum park_kind { PARK_NONE, PARK_ATTENTION, PARK_ALL, PARK_BLOCK };
struct park_options { int kind, n; };   /* n: the N of block:N */
static inline struct park_options *park_options(const struct plan *p) { return plan_own(p, &technique_park.options); }
