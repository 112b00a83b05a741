/* tp_enter and tp_exit: the two ends of a region in which every tp rank works on its own part. See tp_region.c. */
#ifndef TRIVIUM_TP_TP_REGION_H
#define TRIVIUM_TP_TP_REGION_H

#include "lib/ops/op.h"

/** x -> x; backward: dx = sum over tp of dy, started here and awaited by a ROW_WAIT.  (B,T,C) whole on every rank. */
extern const struct op op_tp_enter;
/** x -> sum over tp of x; backward: dx = dy.  (B,T,C) whole on every rank. */
extern const struct op op_tp_exit;

#endif
