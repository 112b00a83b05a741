/* sp_enter and sp_exit: the ends of a tensor parallel region when activations between regions are sharded along the
 * sequence. See tp_sequence.c. */
#pragma once

#include "lib/comm/exchange.h"
#include "lib/ops/op.h"

/** (B,T/tp,C) -> (B,T,C): all-gather; backward: reduce-scatter, started here; a ROW_WAIT waits. */
extern const struct op op_sp_enter;
/** (B,T,C), a partial sum -> (B,T/tp,C): reduce-scatter; backward: all-gather. */
extern const struct op op_sp_exit;

/** What tp_ops.c makes the ops of. in[0] -> out[0] forward, dout[0] -> din[0] backward. sp_enter_backward starts its
 *  exchange with c->request; the others are complete when they return. @collective{group} @errors E_COMM, E_TIMEOUT */
enum status sp_enter_forward(const struct call *), sp_enter_backward(const struct call *);
enum status sp_exit_forward(const struct call *), sp_exit_backward(const struct call *);
/** Bytes of scratch (c->work) of a row of sp_enter or sp_exit, forward or backward. */
int64_t sp_work(const struct call *, bool enters, bool forward);
/** The exchanges of such a row, and their number. */
int sp_exchanges(const struct call *, bool enters, bool forward, struct exchange out[MAX_EXCHANGES]);
