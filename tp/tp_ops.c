/* The ops of tp's tables, made of tp_region.c, tp_sequence.c and tp_cross_entropy.c: shapes, rows, kernels by dtype and
 * device, and what a gradient with several readers needs. */
#include "lib/base/exact.h"
#include "lib/comm/comm_request.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/reduce.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/shapes.h"
#include "tp/tp.h"
#include "tp/tp_cross_entropy.h"
#include "tp/tp_region.h"
#include "tp/tp_sequence.h"

#include <inttypes.h>

static bool is_forward(enum row_kind kind) { return kind == ROW_FORWARD || kind == ROW_REPLAY; }

/* An end of a region sums its input's gradient in place, so it has to be the input's only reader. With fixed sums every
 * reader of x has its own end: its reduced gradient is added to the others'. The sum overwrites dy, which is not read
 * after this. */
static enum status backward(const struct call *c, enum status (*reduce)(const struct call *)) {
    if (!c->accumulate) return reduce(c);
    if (!c->fixed_sums || !c->step->op->async_backward)
        return FAIL(E_INTERNAL, "%s's input has another consumer; its gradient cannot be summed in place",
                    c->step->op->name);
    struct comm_request request = {0};
    struct call own = *c;
    own.din[0] = (struct tensor){c->dout[0].data, c->din[0].type};
    own.accumulate = 0, own.request = &request;
    TRY(reduce(&own));
    TRY(comm_wait(&request));
    return reduce_accumulate(c->device, c->din[0].data, own.din[0].data, type_n(own.din[0].type),
                             own.din[0].type->dtype);
}

/* ---- the region's ends ---- */
static int enter_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    return is_forward(kind) || kind == ROW_BACKWARD_INPUT ? tp_enter_exchanges(c, is_forward(kind), out) : 0;
}
static int exit_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    return is_forward(kind) || kind == ROW_BACKWARD_INPUT ? tp_exit_exchanges(c, is_forward(kind), out) : 0;
}

static enum status enter_backward(const struct call *c) { return backward(c, tp_enter_backward); }
static enum status never_called(const struct call *c) {
    return FAIL(E_INTERNAL, "%s is a view here and has no kernel", c->step->op->name);
}

const struct op op_tp_enter = {
    .name = "tp_enter", .typing = TYPING_SUM_BACKWARD, .shape = tp_region_shape,
    .forward_alias = ALIAS_VIEW, .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true, .async_backward = true, .exchanges = enter_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({never_called, enter_backward, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({never_called, enter_backward, NULL}))}};

const struct op op_tp_exit = {
    .name = "tp_exit", .typing = TYPING_SUM, .shape = tp_region_shape,
    .forward_alias = ALIAS_IN_PLACE, .backward_alias = ALIAS_VIEW,
    .has_backward_input = true, .exchanges = exit_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({tp_exit_forward, never_called, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({tp_exit_forward, never_called, NULL}))}};

/* ---- its ends when the sequence is sharded: T whole, T sharded ---- */
static enum status enter_shape(const struct call *c, struct type out[MAX_OUT]) {
    if (c->in[0].type->shape.n_axes != 3) TRY(shape_expect_tags(c, 0, "BTC"));
    out[0] = *c->in[0].type;
    out[0].shape.axis[1] = c->step->gather.whole;
    return OK;
}

static enum status exit_shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTC"));
    out[0] = *c->in[0].type;
    struct axis *t = &out[0].shape.axis[1];
    if (t->n % c->step->parts)
        return FAIL(E_CONFIG,
                    "sp: tp=%d does not divide the %" PRId64 " tokens of a sequence that a rank has; use another "
                    "tp, or another seq (of t5 also --noise and --span make the lengths), or leave sp out",
                    c->step->parts, t->n);
    *t = axis_part(t, c->step->parts, c->step->part);
    t->cut |= 1u << c->step->mesh_axis;
    return OK;
}

static int64_t work(const struct call *c, enum row_kind kind) {
    return sp_work(c, c->step->op == &op_sp_enter, kind != ROW_BACKWARD_INPUT);
}
static int exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    return sp_exchanges(c, c->step->op == &op_sp_enter, is_forward(kind), out);
}

static enum status scatter_backward(const struct call *c) { return backward(c, sp_enter_backward); }
static enum status gather_backward(const struct call *c) { return backward(c, sp_exit_backward); }

const struct op op_sp_enter = {
    .name = "sp_enter", .typing = TYPING_GATHER, .rule = RULE_GATHER, .shape = enter_shape, .has_backward_input = true,
    .async_backward = true, .work = work, .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({sp_enter_forward, scatter_backward, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({sp_enter_forward, scatter_backward, NULL}))}};

const struct op op_sp_exit = {
    .name = "sp_exit", .typing = TYPING_SCATTER, .shape = exit_shape, .has_backward_input = true, .work = work,
    .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({sp_exit_forward, gather_backward, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({sp_exit_forward, gather_backward, NULL}))}};

/* ---- the norm over sharded heads ---- */
static int norm_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    tp_exit_exchanges(&(struct call){.in = {c->out[1]}}, true, out);
    return kind != ROW_BACKWARD_WEIGHT;
}
static enum status add_sums(const struct call *c, void *sum) {
    return comm_all_reduce(c->group, sum, type_n(c->out[1].type), c->out[1].type->dtype, COMM_SUM);
}
static enum status norm_forward(const struct call *c) { return rmsnorm_heads_forward(c, add_sums); }
static enum status norm_backward(const struct call *c) { return rmsnorm_heads_backward(c, add_sums); }

const struct op op_tp_rmsnorm_heads = {
    .name = "tp_rmsnorm_heads", .typing = TYPING_LOCAL_ACROSS, .mixes = "HD", .rule = RULE_NORM,
    .shape = rmsnorm_heads_shape, .exchanges = norm_exchanges,
    .needs = {.bi_in = IN(0), .bi_out = OUT(1), .bi_weight = WEIGHT(0), .bw_in = IN(0), .bw_out = OUT(1)},
    .no_grad_out = OUT(1), .statistic_out = OUT(1), .forward_alias = ALIAS_IN_PLACE, .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true, .has_backward_weight = true, .work = rmsnorm_heads_work, .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({norm_forward, norm_backward, rmsnorm_heads_weight}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({norm_forward, norm_backward, rmsnorm_heads_weight}))}};

/* ---- the loss over a sharded vocabulary ---- */
static enum status loss_shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTV"));
    TRY(shape_expect_tags(c, 1, "BT"));
    out[0].dtype = out[1].dtype = tp_accumulator(c);
    out[0].shape = (struct shape){1, {axis_whole('1', 1)}};
    out[1].shape = c->in[1].type->shape;
    return OK;
}
static int64_t loss_work(const struct call *c, enum row_kind kind) { return tp_loss_work(c, is_forward(kind)); }
static int loss_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    return tp_loss_exchanges(c, is_forward(kind), out);
}
static struct cost loss_cost(const struct call *c, enum row_kind kind) {
    (void)kind;
    return (struct cost){.bytes = (double)type_bytes(c->in[0].type)};
}

/* Forward. If loss_sum is set, also add the loss of every token to it, exactly. */
static enum status loss_forward(const struct call *c) {
    const int32_t *target = c->in[1].data;
    enum dtype dtype = tp_accumulator(c);
    int64_t n = tp_n_rows(c);
    TRY(tp_loss_forward(c));
    for (int64_t r = 0; c->loss_sum && r < n; r++)
        if (target[r] >= 0)
            exact_add(c->loss_sum, dtype_get(c->out[1].data, dtype, r) - dtype_get(c->work, dtype, n + r));   /* hit */
    return OK;
}

const struct op op_tp_cross_entropy = {
    .name = "tp_cross_entropy", .typing = TYPING_LOSS_ACROSS, .mixes = "V", .shape = loss_shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(1)},
    .no_grad_in = IN(1), .no_grad_out = OUT(0) | OUT(1), .statistic_out = OUT(1),
    .backward_over_in = true, .has_backward_input = true, .work = loss_work, .cost = loss_cost,
    .exchanges = loss_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({loss_forward, tp_loss_backward, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({loss_forward, tp_loss_backward, NULL}))}};
