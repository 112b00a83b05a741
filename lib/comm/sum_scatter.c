#include "lib/comm/sum_scatter.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <inttypes.h>

static enum status sum_scatter_shape(const struct call *c, struct type out[MAX_OUT]) {
    const struct step *s = c->step;
    out[0] = *c->in[0].type;
    struct axis *part = &out[0].shape.axis[0];
    if (part->tag != s->reshard.cuts || part->n % s->parts)
        return FAIL(E_CONFIG, "%s: %d ranks do not share the %" PRId64 " of axis %c, the outermost one",
                    s->op->name, s->parts, part->n, s->reshard.cuts);
    *part = axis_part(part, s->parts, s->part);
    part->cut |= s->reshard.moves;
    return OK;
}

static enum status sum_scatter_forward(const struct call *c) {
    struct comm_request request = {0};
    const struct tensor *y = &c->out[0];
    TRY(comm_reduce_scatter_start(c->group, c->in[0].data, y->data, type_n(y->type), y->type->dtype, &request));
    return comm_wait(&request);
}

static enum status sum_scatter_backward_input(const struct call *c) {
    struct comm_request request = {0};
    const struct tensor *dy = &c->dout[0];
    if (c->accumulate) return FAIL(E_INTERNAL, "sum_scatter's input has another consumer");
    TRY(comm_all_gather_start(c->group, dy->data, c->din[0].data, type_n(dy->type), dy->type->dtype, &request));
    return comm_wait(&request);
}

static int sum_scatter_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    bool forward = kind == ROW_FORWARD || kind == ROW_REPLAY;
    out[0].op = forward ? COMM_REDUCE_SCATTER : COMM_ALL_GATHER;
    out[0].count = type_n(c->in[0].type);
    out[0].dtype = c->in[0].type->dtype;
    return 1;
}

#define KERNELS {sum_scatter_forward, sum_scatter_backward_input, NULL}
const struct op op_sum_scatter = {
    .name = "sum_scatter", .rule = RULE_RESHARD, .typing = TYPING_SCATTER, .shape = sum_scatter_shape,
    .has_backward_input = true, .exchanges = sum_scatter_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE(KERNELS), WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE(KERNELS))}};
