/* The conjugate pair f and g of Megatron-LM.
 *
 *   tp_enter (f)   forward: nothing       y = x           backward: all-reduce   dx = sum_r dy_r
 *   tp_exit  (g)   forward: all-reduce    y = sum_r x_r   backward: nothing      dx = dy
 *
 * Why: between the two, rank r computes with its own columns of one matrix and its own rows of the next.
 *   f: x is the same on all ranks, but each rank has only its own shard's effect on the loss: add the gradients.
 *   g: x_r is a partial sum: add forward. All ranks already have the gradient of the sum: nothing to do backward.
 *
 * "Nothing" is a VIEW: no memory, no kernel, no row. The all-reduces are in place. f's backward is asynchronous:
 * between its start and its wait, the lowering puts the weight gradient of the product that reads y.
 *
 * Source: Shoeybi et al. 2019, "Megatron-LM", section 3 and figure 3. */
#include "tp/tp_region.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"
#include "lib/ops/reduce.h"

static enum status region_shape(const struct call *c, struct type out[MAX_OUT]) {
    out[0] = *c->in[0].type;
    return OK;
}

static int all_reduce(const struct call *c, bool there_is, struct exchange out[MAX_EXCHANGES]) {
    out[0].op = COMM_ALL_REDUCE;
    out[0].count = type_n(c->in[0].type);
    out[0].dtype = c->in[0].type->dtype;
    return there_is;
}
static int enter_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    return all_reduce(c, kind == ROW_BACKWARD_INPUT, out);
}
static int exit_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    return all_reduce(c, kind == ROW_FORWARD || kind == ROW_REPLAY, out);
}

/* The all-reduces are in place. If the lowering gave input and output different memory, copy first. */
static enum status copy(const struct call *c, const struct tensor *to, const struct tensor *from) {
    return to->data == from->data ? OK : c->device->copy(c->device, to->data, from->data, type_bytes(from->type));
}

/* With fixed sums every reader of x has its own tp_enter; its all-reduced gradient is added to the others'. dy is not
 * read after this. */
static enum status add_whole(const struct call *c) {
    const struct type *type = c->din[0].type;
    TRY(comm_all_reduce(c->group, c->dout[0].data, type_n(type), type->dtype, COMM_SUM));
    return reduce_accumulate(c->device, c->din[0].data, c->dout[0].data, type_n(type), type->dtype);
}

static enum status enter_backward_input(const struct call *c) {
    if (c->accumulate && c->fixed_sums) return add_whole(c);
    if (c->accumulate)
        return FAIL(E_INTERNAL, "tp_enter's input has another consumer; its gradient cannot be summed in place");
    const struct type *type = c->din[0].type;
    TRY(copy(c, &c->din[0], &c->dout[0]));
    return comm_all_reduce_start(c->group, c->din[0].data, type_n(type), type->dtype, COMM_SUM, c->request);
}

static enum status exit_forward(const struct call *c) {
    const struct type *type = c->out[0].type;
    TRY(copy(c, &c->out[0], &c->in[0]));
    return comm_all_reduce(c->group, c->out[0].data, type_n(type), type->dtype, COMM_SUM);
}

static enum status never_called(const struct call *c) {
    return FAIL(E_INTERNAL, "%s is a view here and has no kernel", c->step->op->name);
}

const struct op op_tp_enter = {
    .name = "tp_enter", .typing = TYPING_SUM_BACKWARD, .shape = region_shape,
    .forward_alias = ALIAS_VIEW, .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true, .async_backward = true, .exchanges = enter_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({never_called, enter_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({never_called, enter_backward_input, NULL}))}};

const struct op op_tp_exit = {
    .name = "tp_exit", .typing = TYPING_SUM, .shape = region_shape,
    .forward_alias = ALIAS_IN_PLACE, .backward_alias = ALIAS_VIEW,
    .has_backward_input = true, .exchanges = exit_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({exit_forward, never_called, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({exit_forward, never_called, NULL}))}};
