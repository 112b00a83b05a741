/* The conjugate pair f and g of Megatron-LM.
 *
 *   tp_enter (f)   forward: nothing       y = x           backward: all-reduce   dx = sum_r dy_r
 *   tp_exit  (g)   forward: all-reduce    y = sum_r x_r   backward: nothing      dx = dy
 *
 * Why: between the two, rank r computes with its own columns of one matrix and its own rows of the next.
 *   f: x is the same on all ranks, but each rank has only its own shard's effect on the loss: add the gradients.
 *   g: x_r is a partial sum: add forward. All ranks already have the gradient of the sum: nothing to do backward.
 *
 * "Nothing" is a VIEW: no memory, no kernel, no row (tp_ops.c). The all-reduces are in place. f's backward is
 * asynchronous: between its start and its wait, the lowering puts the weight gradient of the product that reads y.
 *
 * Source: Shoeybi et al. 2019, "Megatron-LM", section 3 and figure 3. */
#include "tp/tp_region.h"

#include "lib/comm/comm_request.h"

enum status tp_region_shape(const struct call *c, struct type out[MAX_OUT]) {
    out[0] = *c->in[0].type;
    return OK;
}

static int all_reduce(const struct call *c, bool there_is, struct exchange out[MAX_EXCHANGES]) {
    out[0].op = COMM_ALL_REDUCE;
    out[0].count = type_n(c->in[0].type);
    out[0].dtype = c->in[0].type->dtype;
    return there_is;
}
int tp_enter_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    return all_reduce(c, !forward, out);
}
int tp_exit_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    return all_reduce(c, forward, out);
}

enum status tp_enter_backward(const struct call *c) {
    const struct type *type = c->din[0].type;
    TRY(tp_copy(c, &c->din[0], &c->dout[0]));
    return comm_all_reduce_start(c->group, c->din[0].data, type_n(type), type->dtype, COMM_SUM, c->request);
}

enum status tp_exit_forward(const struct call *c) {
    const struct type *type = c->out[0].type;
    TRY(tp_copy(c, &c->out[0], &c->in[0]));
    return comm_all_reduce(c->group, c->out[0].data, type_n(type), type->dtype, COMM_SUM);
}
