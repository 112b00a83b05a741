#include "lib/comm/reshard.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/device/arena.h"
#include "lib/ops/kernels.h"
#include "lib/ops/pieces.h"
#include "lib/ops/shapes.h"
#include <inttypes.h>

/* ---- shape ---- */
static int place_of(const struct shape *s, char tag) {
    const struct axis *a = shape_axis(s, tag);
    return a ? (int)(a - s->axis) : -1;
}

/* *a must be this rank's part of an axis; turn it into the whole axis, which is contiguous or step->reshard.whole.
 * @return whether *a was this part */
static bool becomes_whole(const struct step *s, struct axis *a) {
    struct axis whole = *a;
    if (s->reshard.whole.n) whole = s->reshard.whole;
    else if (a->jump || a->first < a->n * s->part) return false;
    else whole.first -= a->n * s->part, whole.n *= s->parts, whole.cut &= ~s->reshard.moves;
    const struct axis part = axis_part(&whole, s->parts, s->part);
    bool is_part = whole.n % s->parts == 0 && axis_same(&part, a);
    *a = whole;
    return is_part;
}

static enum status reshard_shape(const struct call *c, struct type out[MAX_OUT]) {
    const struct step *s = c->step;
    out[0] = *c->in[0].type;
    int g = place_of(&out[0].shape, s->reshard.gathers), k = place_of(&out[0].shape, s->reshard.cuts);
    if (g < 0 || k < 0)
        return FAIL(E_CONFIG, "%s: it exchanges axes %c and %c, and has not both", s->op->name, s->reshard.gathers,
                    s->reshard.cuts);
    struct axis *whole = &out[0].shape.axis[g], *part = &out[0].shape.axis[k];
    if (!becomes_whole(s, whole))
        return FAIL(E_CONFIG, "%s: axis %c is not this rank's part of the result", s->op->name, whole->tag);
    if (part->n % s->parts)
        return FAIL(E_CONFIG, "%s: %d ranks do not divide the %" PRId64 " of axis %c", s->op->name, s->parts, part->n,
                    part->tag);
    *part = axis_part(part, s->parts, s->part);
    part->cut |= s->reshard.moves;
    return OK;
}

/* ---- the exchange ---- */
/* before: the product of the axes before the cut axis; bytes: of one of its n parts, with all axes after it. */
struct pieces { int64_t before, bytes; };

static struct pieces pieces_along(const struct type *whole, int axis, int n) {
    struct pieces p = {1, (int64_t)dtype_size(whole->dtype)};
    for (int i = 0; i < whole->shape.n_axes; i++) *(i < axis ? &p.before : &p.bytes) *= whole->shape.axis[i].n;
    p.bytes /= n;
    return p;
}

/* The axis `cuts` is whole in `from`, and the axis `gathers` is whole in `to`. */
static enum status exchange(const struct call *c, const struct tensor *from, const struct tensor *to, char gathers,
                            char cuts) {
    int n = c->step->parts;
    int64_t bytes = type_bytes(from->type);
    char *sent = c->work, *got = sent + arena_align(bytes);
    struct pieces out = pieces_along(from->type, place_of(&from->type->shape, cuts), n);
    struct pieces in = pieces_along(to->type, place_of(&to->type->shape, gathers), n);
    struct comm_request request = {0};
    if (c->accumulate) return FAIL(E_INTERNAL, "reshard's input has another consumer");
    TRY(pieces_transpose(c->device, sent, from->data, out.before, n, out.bytes));
    TRY(comm_all_to_all_start(c->group, sent, got, type_n(from->type) / n, from->type->dtype, &request));
    TRY(comm_wait(&request));
    return pieces_transpose(c->device, to->data, got, n, in.before, in.bytes);
}

static enum status reshard_forward(const struct call *c) {
    return exchange(c, &c->in[0], &c->out[0], c->step->reshard.gathers, c->step->reshard.cuts);
}
static enum status reshard_backward_input(const struct call *c) {
    return exchange(c, &c->dout[0], &c->din[0], c->step->reshard.cuts, c->step->reshard.gathers);
}

static int64_t reshard_work(const struct call *c, enum row_kind kind) {
    (void)kind;
    return arena_align(type_bytes(c->in[0].type)) + type_bytes(c->in[0].type);
}

static int reshard_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    (void)kind;
    out[0].op = COMM_ALL_TO_ALL;
    out[0].count = type_n(c->in[0].type);
    out[0].dtype = c->in[0].type->dtype;
    return 1;
}

const struct op op_reshard = {
    .name = "reshard", .rule = RULE_RESHARD, .typing = TYPING_EXCHANGE, .shape = reshard_shape,
    .has_backward_input = true, .work = reshard_work, .exchanges = reshard_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({reshard_forward, reshard_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({reshard_forward, reshard_backward_input, NULL}))}};

const struct op op_reshard_counts = {
    .name = "reshard_counts", .rule = RULE_RESHARD, .typing = TYPING_EXCHANGE, .shape = reshard_shape,
    .no_grad_in = IN(0), .no_grad_out = OUT(0), .kept_out = OUT(0), .work = reshard_work,
    .exchanges = reshard_exchanges,
    .kernels = {[DEVICE_CPU] = {[INT32] = {reshard_forward, NULL, NULL}},
                WITH_CUDA([DEVICE_CUDA] = {[INT32] = {reshard_forward, NULL, NULL}})}};
