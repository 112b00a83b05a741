/* Exercise: the ends of a region when the sequence is cut between regions (lesson 06).
 *
 *   sp_enter   forward:  every rank has T/tp tokens of every sequence, and gets all T        (B,T/tp,C) -> (B,T,C)
 *   sp_exit    forward:  every rank has all T tokens, each a part of a sum, and gets the whole sum for its own tokens
 *                                                                                            (B,T,C) -> (B,T/tp,C)
 *   backward of each: work it out. Which of the collectives of lib/comm/comm.h are they?
 *
 * Layout. A collective over n ranks has n equal contiguous pieces; piece r is rank r's. A rank's tokens are a piece of
 * every sequence of the batch, so in (B,T,C) they are not contiguous unless B is 1. The tensor's order is
 * (B,tp,T/tp,C), the collective's order is (tp,B,T/tp,C). pieces_transpose (lib/ops/pieces.h) converts between them,
 * into and out of scratch (c->work): it transposes a matrix whose elements are pieces of T/tp tokens. With B = 1 the
 * orders are equal, and no scratch is needed.
 *
 * The next step needs forward of both ops and backward of sp_exit at once, so wait for them. Backward of sp_enter is
 * asynchronous: start the exchange; a later row waits for c->request. Its operands and scratch stay until then. */
#include "tp/tp_sequence.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"
#include "lib/ops/pieces.h"
#include "lib/ops/shapes.h"
#include <inttypes.h>

/* ---- shapes: T whole, T cut ---- */
static enum status enter_shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTC"));
    out[0] = *c->in[0].type;
    out[0].shape.axis[1] = axis_whole('T', out[0].shape.axis[1].global);
    return OK;
}

static enum status exit_shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTC"));
    out[0] = *c->in[0].type;
    struct axis *t = &out[0].shape.axis[1];
    if (t->global % c->step->parts)
        return FAIL(E_CONFIG, "sp: tp=%d does not divide seq=%" PRId64, c->step->parts, t->global);
    t->n = t->global / c->step->parts;
    t->first = t->n * c->step->part;
    return OK;
}

static enum status refuse_accumulate(const struct call *c) {
    if (!c->accumulate) return OK;
    return FAIL(E_INTERNAL, "%s's input has another consumer; its gradient cannot be exchanged in place",
                c->step->op->name);
}

/* ---- kernels: TODO. Backward ones begin with refuse_accumulate ---- */
static enum status enter_forward(const struct call *c) {
    return FAIL(E_TODO, "%s: forward is yours to write", c->step->op->name);
}
static enum status enter_backward_input(const struct call *c) {
    TRY(refuse_accumulate(c));
    return FAIL(E_TODO, "%s: backward is yours to write", c->step->op->name);
}

static enum status exit_forward(const struct call *c) {
    return FAIL(E_TODO, "%s: forward is yours to write", c->step->op->name);
}
static enum status exit_backward_input(const struct call *c) {
    TRY(refuse_accumulate(c));
    return FAIL(E_TODO, "%s: backward is yours to write", c->step->op->name);
}

/* ---- work and exchanges: TODO ---- */
/* Bytes of scratch that a row of each op needs. */
static int64_t work(const struct call *c, enum row_kind kind) {
    (void)c, (void)kind;
    return 0;
}
/* Set op, count (of the whole) and dtype of a row's exchanges (lib/comm/exchange.h), and return their number. */
static int exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)kind, (void)out;
    return 0;
}

const struct op op_sp_enter = {
    .name = "sp_enter", .typing = TYPING_GATHER, .shape = enter_shape, .has_backward_input = true,
    .async_backward = true, .work = work, .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({enter_forward, enter_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({enter_forward, enter_backward_input, NULL}))}};

const struct op op_sp_exit = {
    .name = "sp_exit", .typing = TYPING_SCATTER, .shape = exit_shape, .has_backward_input = true, .work = work,
    .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({exit_forward, exit_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({exit_forward, exit_backward_input, NULL}))}};
