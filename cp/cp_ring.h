/* Attention in a ring: each rank keeps its queries, and keys and values pass by. See cp_ring.c. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_cp_ring;
