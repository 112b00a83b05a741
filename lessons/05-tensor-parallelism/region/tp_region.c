/* Exercise: the conjugate pair f and g of Megatron-LM (lesson 05, "Two cuts that fit").
 *
 *   tp_enter (f)   forward: nothing   y = x        backward: ?
 *   tp_exit  (g)   forward: ?                      backward: nothing   dx = dy
 *
 * What enters a region is the same on every rank; each rank uses it for its own part of the layer. What leaves is rank
 * r's part of a sum. Work out what stands for the two question marks, then fill in what says TODO. Wanted are
 *
 *   - the type of what comes out, of both;
 *   - the two kernels, for any dtype: both may be called in place (the operands' data is one address) or not;
 *   - in the table at the end, which direction is a view (lib/ops/op.h: enum alias): no memory, no kernel, no row;
 *   - what a row of each op exchanges (struct exchange, lib/comm/exchange.h), by row kind. A ROW_REPLAY is forward once
 *   more
 *     (lesson 09): it exchanges what forward does.
 *
 * A kernel's call (lib/ops/op.h: struct call) has in[0] and out[0] forward, dout[0] and din[0] backward, each with data
 * and type; group is the tp group; type_n(type) is how many elements a type has, type_bytes(type) how many bytes.
 * Backward of tp_enter is asynchronous: it starts its sum and leaves c->request to a row that waits. */
#include "tp/tp_region.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"

/* TODO: out[0] = the type of the result, when c->in[0].type points to that of the input. */
static enum status region_shape(const struct call *c, struct type out[MAX_OUT]) {
    (void)out;
    return FAIL(E_TODO, "%s: the type of its result is yours to write", c->step->op->name);
}

/* TODO: out[0].op, .count and .dtype of what a row exchanges, and how many exchanges that are: 1, or 0. */
static int enter_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)kind, (void)out;
    return 0;
}
static int exit_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)kind, (void)out;
    return 0;
}

/* In place when the lowering could share the bytes; else a copy first. */
static enum status copy(const struct call *c, const struct tensor *to, const struct tensor *from) {
    return to->data == from->data ? OK : c->device->copy(c->device, to->data, from->data, type_bytes(from->type));
}

/* TODO: dout[0] -> din[0]. When c->accumulate is set, another step has already put its gradient into din[0]: refuse
 * (E_INTERNAL, "tp_enter's input has another consumer ..."). */
static enum status enter_backward_input(const struct call *c) {
    (void)copy;
    return FAIL(E_TODO, "%s: backward is yours to write", c->step->op->name);
}

/* TODO: in[0] -> out[0]. Here the next step needs the result at once: wait for it (comm_all_reduce). */
static enum status exit_forward(const struct call *c) {
    return FAIL(E_TODO, "%s: forward is yours to write", c->step->op->name);
}

/* For the direction that is a view. */
static enum status never_called(const struct call *c) {
    return FAIL(E_INTERNAL, "%s is a view here and has no kernel", c->step->op->name);
}

/* TODO: forward_alias and backward_alias of both. The direction that sums can do so in place: ALIAS_IN_PLACE. */
const struct op op_tp_enter = {
    .name = "tp_enter", .typing = TYPING_SUM_BACKWARD, .shape = region_shape, .has_backward_input = true,
    .async_backward = true,
    .exchanges = enter_exchanges, .kernels = {[DEVICE_CPU] = EVERY_DTYPE({never_called, enter_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({never_called, enter_backward_input, NULL}))}};

const struct op op_tp_exit = {
    .name = "tp_exit", .typing = TYPING_SUM, .shape = region_shape, .has_backward_input = true,
    .exchanges = exit_exchanges, .kernels = {[DEVICE_CPU] = EVERY_DTYPE({exit_forward, never_called, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({exit_forward, never_called, NULL}))}};
