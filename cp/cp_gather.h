/* Attention over gathered keys and values. See cp_gather.c. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_cp_gather;
