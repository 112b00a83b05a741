/* tp_enter and tp_exit: the two ends of a region in which every tp rank works on its own shard. See tp_region.c. */
#pragma once

#include "lib/ops/op.h"

/** x -> x; backward: dx = all-reduce of dy over tp, started here; a ROW_WAIT waits.  (B,T,C) whole on every rank. */
extern const struct op op_tp_enter;
/** x -> all-reduce of x over tp; backward: dx = dy.  (B,T,C) whole on every rank. */
extern const struct op op_tp_exit;
