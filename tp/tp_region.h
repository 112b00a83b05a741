/* tp_enter and tp_exit: the two ends of a region in which every tp rank works on its own shard. See tp_region.c. */
#pragma once

#include "lib/comm/exchange.h"
#include "lib/ops/op.h"

/** x -> x; backward: dx = all-reduce of dy over tp, started here; a ROW_WAIT waits.  (B,T,C) whole on every rank. */
extern const struct op op_tp_enter;
/** x -> all-reduce of x over tp; backward: dx = dy.  (B,T,C) whole on every rank. */
extern const struct op op_tp_exit;

/** What tp_ops.c makes the ops of. The type of the result of both. @errors none */
enum status tp_region_shape(const struct call *, struct type out[MAX_OUT]);
/** The exchanges of one row, forward or backward: their number, 0 or 1. */
int tp_enter_exchanges(const struct call *, bool forward, struct exchange out[MAX_EXCHANGES]);
int tp_exit_exchanges(const struct call *, bool forward, struct exchange out[MAX_EXCHANGES]);
/** dout[0] -> din[0], started with c->request. @collective{group} @errors E_COMM */
enum status tp_enter_backward(const struct call *);
/** in[0] -> out[0], complete. @collective{group} @errors E_COMM, E_TIMEOUT */
enum status tp_exit_forward(const struct call *);
/** to = from, unless the lowering lets both share their bytes. @errors E_DEVICE */
enum status tp_copy(const struct call *, const struct tensor *to, const struct tensor *from);
