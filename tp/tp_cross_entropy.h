/* The loss over a vocabulary sharded over tp. See tp_cross_entropy.c. */
#pragma once

#include "lib/comm/exchange.h"
#include "lib/ops/op.h"

/** in[0] logits (B,T,V/tp), in[1] targets (B,T) int32 -> out[0] the loss, the same on every rank; out[1] lse (B,T). */
extern const struct op op_tp_cross_entropy;

/** What tp_ops.c makes the op of. in -> out; c->work then has the sum of every row, and after it the hit of every row.
 *  @collective{group} @errors E_COMM, E_TIMEOUT, E_DATA */
enum status tp_loss_forward(const struct call *);
/** -> din[0]. @errors E_DEVICE */
enum status tp_loss_backward(const struct call *);
/** Bytes of c->work of a row, forward or backward; the exchanges of a row, and their number. */
int64_t tp_loss_work(const struct call *, bool forward);
int tp_loss_exchanges(const struct call *, bool forward, struct exchange out[MAX_EXCHANGES]);

/** The number of rows, B T, and the type in which a row's numbers are kept. */
int64_t tp_n_rows(const struct call *);
enum dtype tp_accumulator(const struct call *);
/** The passes over a rank's own columns (lib/ops/cross_entropy.h: struct cross_entropy_pieces), for the rows of a call:
 *  a number per row each. tp_rows_loss: max, sum and hit of the whole vocabulary -> out[0] and out[1], scaled by
 *  c->loss_weight; tp_rows_gradient: din[0] = or, if accumulate, += scale (e^(x[r,k] - lse[r]) - [k = target[r]]), lse
 *  from out[1]. @errors E_DEVICE; E_DATA, on the CPU: "target 13 at position 3 is beyond the vocabulary of 13" */
enum status tp_rows_max(const struct call *, void *max);
enum status tp_rows_sum(const struct call *, const void *max, void *sum, void *hit);
enum status tp_rows_loss(const struct call *, const void *max, const void *sum, const void *hit);
enum status tp_rows_gradient(const struct call *, double scale, bool accumulate);
