/* Attention in a ring: each rank keeps its queries, and keys and values pass by. See cp_ring.c. */
#ifndef TRIVIUM_CP_CP_RING_H
#define TRIVIUM_CP_CP_RING_H

#include "lib/ops/op.h"

extern const struct op op_cp_ring;

#endif
