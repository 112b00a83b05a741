/* Exercise: softmax cross-entropy over a vocabulary that is cut over the ranks (lesson 05, "A loss without the
 * logits").
 *
 * Each rank has V/tp columns of the logits. Gathering them would move B T V numbers. The loss
 *
 *   loss = loss_weight sum_r (lse[r] - x[r, target[r]])        lse[r] = log sum_k e^x[r,k], k over the whole vocabulary
 *
 * needs only three numbers per token from every rank. Which numbers are these, and how are they reduced?
 * lib/ops/cross_entropy.h has the functions for a rank's own columns (struct cross_entropy_pieces: row_max, row_sum,
 * loss, gradient). Add the exchanges between ranks. Two all-reduces are enough. Backward needs none.
 *
 * The pieces leave out the columns that pad the vocabulary to a multiple of tp. */
#include "tp/tp_cross_entropy.h"

#include "lib/comm/exchange.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTV"));
    TRY(shape_expect_tags(c, 1, "BT"));
    out[0].dtype = out[1].dtype = dtype_accumulator(c->in[0].type->dtype);
    out[0].shape = (struct shape){1, {axis_whole('1', 1)}};
    out[1].shape = c->in[1].type->shape;
    return OK;
}

static int64_t n_rows(const struct call *c) { return type_n(c->in[1].type); }
static enum dtype accumulator(const struct call *c) { return dtype_accumulator(c->in[0].type->dtype); }
static bool is_forward(enum row_kind kind) { return kind == ROW_FORWARD || kind == ROW_REPLAY; }

/* TODO: bytes of scratch (c->work) that a row of this kind needs; use n_rows, accumulator and dtype_size. Numbers that
 * one all-reduce sums must be contiguous. */
static int64_t work(const struct call *c, enum row_kind kind) {
    (void)c, (void)kind;
    return 0;
}

static struct cost cost(const struct call *c, enum row_kind kind) {
    (void)kind;
    return (struct cost){.bytes = (double)type_bytes(c->in[0].type)};
}

/* TODO: set op, count and dtype of each exchange of a row of this kind (lib/comm/exchange.h), and return the number of
 * exchanges. */
static int exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)kind, (void)out, (void)is_forward, (void)n_rows, (void)accumulator;
    return 0;
}

static struct vocab_rows rows_of(const struct call *c) {
    return (struct vocab_rows){c->in[0].data, c->in[1].data, n_rows(c), c->in[0].type->shape.axis[2]};
}

static const struct cross_entropy_pieces *pieces_of(const struct call *c) {
    return cross_entropy_pieces(c->on, c->in[0].type->dtype);
}

/* TODO: out[0] = the loss, the same on every rank, scaled by c->loss_weight; out[1] = lse. c->group is the tp group;
 * comm_all_reduce takes COMM_MAX or COMM_SUM. */
static enum status forward(const struct call *c) {
    (void)rows_of, (void)pieces_of;
    return FAIL(E_TODO, "%s: forward is yours to write", c->step->op->name);
}

/* TODO: din[0] = loss_weight loss_scale (e^(x[r,k] - lse[r]) - [k = target[r]]) for this rank's columns; += instead of
 * = if c->accumulate & 1. */
static enum status backward_input(const struct call *c) {
    return FAIL(E_TODO, "%s: backward is yours to write", c->step->op->name);
}

const struct op op_tp_cross_entropy = {
    .name = "tp_cross_entropy", .typing = TYPING_LOSS_ACROSS, .mixes = "V", .shape = shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(1)},
    .no_grad_in = IN(1), .no_grad_out = OUT(0) | OUT(1), .statistic_out = OUT(1),
    .backward_over_in = true, .has_backward_input = true, .work = work, .cost = cost, .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({forward, backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({forward, backward_input, NULL}))}};
