/* Exercise: the conjugate pair f and g of Megatron-LM (lesson 05, "Two cuts that fit").
 *
 *   tp_enter (f)   forward: nothing   y = x        backward: ?
 *   tp_exit  (g)   forward: ?                      backward: nothing   dx = dy
 *
 * The input of a region is the same on every rank; each rank computes its own part of the layer from it. The outputs of
 * the ranks are the terms of a sum. Find the operations for the two question marks, then write the five functions.
 * tp/tp_ops.c makes two ops of the five. Where a line above says "nothing", the result is a view of the operand: it has
 * no memory, no kernel and no row, and you write nothing. If another step has put a gradient into din[0] already,
 * tp/tp_ops.c adds yours to it: you only set din[0].
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

/* TODO 1: write the type of the result to out[0]; the function serves both ops. c->in[0].type points to the type of the
 * input. */
enum status tp_region_shape(const struct call *c, struct type out[MAX_OUT]) {
    (void)c, (void)out;
    return FAIL(E_TODO, "the type of a region's result is still to be written");
}

/* TODO 2: in[0] -> out[0], by an operation in place on out[0]. First tp_copy(c, &c->out[0], &c->in[0]): it copies,
 * unless both have the same memory. The next step reads the result at once, so use the call that returns when the
 * result is there, comm_all_reduce. */
enum status tp_exit_forward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "tp_exit's forward is still to be written");
}

/* TODO 3: dout[0] -> din[0], likewise with a copy first. This one is asynchronous: start the operation with c->request
 * (comm_all_reduce_start), and return. A later row waits for it. */
enum status tp_enter_backward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "tp_enter's backward is still to be written");
}

/* TODO 4: the bill of a row, which is the op's row of forward or, if `forward` is false, its row of backward. If the
 * row sends something, set op, count and dtype of out[0] and return 1; else return 0. */
int tp_enter_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)forward, (void)out;
    return 0;
}
int tp_exit_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)forward, (void)out;
    return 0;
}
