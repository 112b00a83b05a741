/* Exercise: the conjugate pair f and g of Megatron-LM (lesson 05, "Two cuts that fit").
 *
 *   tp_enter (f)   forward: nothing   y = x        backward: ?
 *   tp_exit  (g)   forward: ?                      backward: nothing   dx = dy
 *
 * A region's input is the same on every rank; each rank uses it for its own part of the layer. Rank r's output is its
 * part of a sum. Find the operations for the two question marks, then write the five functions. tp/tp_ops.c makes the
 * ops of them; the direction that does nothing is a view there: no memory, no kernel, no row. A gradient that another
 * step has put into din[0] already is its business, too.
 *
 * There are three types:
 *
 *   struct call       (lib/ops/op.h) one row's operands: in[0] and out[0] forward, dout[0] and din[0] backward, each
 *                     with data and type; group, the tp group; request
 *   struct type       (lib/device/tensor.h) what an operand is: type_n(type) elements of type->dtype
 *   struct exchange   (lib/comm/exchange.h) what a row sends, for the bill: op, count, dtype
 *
 * Grade after step 2: g sums, and the type is kept. Each step is a few lines. */
#include "tp/tp_region.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"

/* TODO 1: out[0] = the type of the result, of both ops. c->in[0].type points to the type of the input. */
enum status tp_region_shape(const struct call *c, struct type out[MAX_OUT]) {
    (void)c, (void)out;
    return FAIL(E_TODO, "the type of a region's result is still to be written");
}

/* TODO 2: in[0] -> out[0]. tp_copy(c, &c->out[0], &c->in[0]) copies, unless both are one memory; then the operation
 * works in place. The next step needs the result at once, so wait for it (comm_all_reduce). */
enum status tp_exit_forward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "tp_exit's forward is still to be written");
}

/* TODO 3: dout[0] -> din[0], likewise. It is asynchronous: start it with c->request (comm_all_reduce_start); a later
 * row waits. */
enum status tp_enter_backward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "tp_enter's backward is still to be written");
}

/* TODO 4: set op, count and dtype of out[0], a row's exchange, and return the number of exchanges: 1 or 0. The row is
 * one of forward, or one of backward. */
int tp_enter_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)forward, (void)out;
    return 0;
}
int tp_exit_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)forward, (void)out;
    return 0;
}
