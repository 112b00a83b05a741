/* Exercise: the conjugate pair f and g of Megatron-LM (lesson 05, "Two cuts that fit").
 *
 *   tp_enter (f)   forward: nothing   y = x        backward: ?
 *   tp_exit  (g)   forward: ?                      backward: nothing   dx = dy
 *
 * A region's input is the same on every rank; each rank uses it for its own part of the layer. Rank r's output is its
 * part of a sum. Find the operations for the two question marks, then replace each TODO by
 *
 *   - the type of the result, of both ops;
 *   - the two kernels, for any dtype; both may be called in place (the operands' data is one address) or not;
 *   - in the table at the end, the direction that is a view (lib/ops/op.h: enum alias): no memory, no kernel, no row;
 *   - the exchanges of a row of each op (struct exchange, lib/comm/exchange.h), by row kind. A ROW_REPLAY runs forward
 *     again (lesson 09), with forward's exchanges.
 *
 * A kernel's call (lib/ops/op.h: struct call) has in[0] and out[0] forward, dout[0] and din[0] backward, each with data
 * and type. group is the tp group. type_n(type) is the number of elements, type_bytes(type) the number of bytes.
 * Backward of tp_enter is asynchronous: it starts its all-reduce, and a later row waits for c->request. */
#include "tp/tp_region.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"

/* TODO: out[0] = the type of the result. c->in[0].type points to the type of the input. */
static enum status region_shape(const struct call *c, struct type out[MAX_OUT]) {
    (void)out;
    return FAIL(E_TODO, "%s: the type of its result is yours to write", c->step->op->name);
}

/* TODO: set out[0].op, .count and .dtype of a row's exchange, and return the number of exchanges: 1 or 0. */
static int enter_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)kind, (void)out;
    return 0;
}
static int exit_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)kind, (void)out;
    return 0;
}

/* Copy, unless the lowering lets both tensors share their bytes. */
static enum status copy(const struct call *c, const struct tensor *to, const struct tensor *from) {
    return to->data == from->data ? OK : c->device->copy(c->device, to->data, from->data, type_bytes(from->type));
}

/* TODO: dout[0] -> din[0]. When c->accumulate is set, another step has already put its gradient into din[0]: refuse
 * (E_INTERNAL, "tp_enter's input has another consumer ..."). */
static enum status enter_backward_input(const struct call *c) {
    (void)copy;
    return FAIL(E_TODO, "%s: backward is yours to write", c->step->op->name);
}

/* TODO: in[0] -> out[0]. The next step needs the result at once, so wait for it (comm_all_reduce). */
static enum status exit_forward(const struct call *c) {
    return FAIL(E_TODO, "%s: forward is yours to write", c->step->op->name);
}

/* The kernel of the direction that is a view. */
static enum status never_called(const struct call *c) {
    return FAIL(E_INTERNAL, "%s is a view here and has no kernel", c->step->op->name);
}

/* TODO: forward_alias and backward_alias of both ops. The direction that sums can work in place: ALIAS_IN_PLACE. */
const struct op op_tp_enter = {
    .name = "tp_enter", .typing = TYPING_SUM_BACKWARD, .shape = region_shape, .has_backward_input = true,
    .async_backward = true,
    .exchanges = enter_exchanges, .kernels = {[DEVICE_CPU] = EVERY_DTYPE({never_called, enter_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({never_called, enter_backward_input, NULL}))}};

const struct op op_tp_exit = {
    .name = "tp_exit", .typing = TYPING_SUM, .shape = region_shape, .has_backward_input = true,
    .exchanges = exit_exchanges, .kernels = {[DEVICE_CPU] = EVERY_DTYPE({exit_forward, never_called, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({exit_forward, never_called, NULL}))}};
