/* Attention over gathered keys and values. See cp_gather.c. */
#ifndef TRIVIUM_CP_CP_GATHER_H
#define TRIVIUM_CP_CP_GATHER_H

#include "lib/ops/op.h"

extern const struct op op_cp_gather;

#endif
