/* The typing rule of each kind of op, over one factor of the mesh. See types.h. */
#include "lib/types/types_rules.h"

#include "lib/comm/exchange.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct shape *shape_in(const struct typing_at *a, int i) { return &a->p->slots[a->s->in[i]].type.shape; }
static const struct shape *shape_out(const struct typing_at *a, int i) { return &a->p->slots[a->s->out[i]].type.shape; }
static const struct shape *shape_weight(const struct typing_at *a, int i) {
    return &a->p->params[a->s->weight[i]].type.shape;
}
static const char *name_in(const struct typing_at *a, int i) { return a->p->slots[a->s->in[i]].name; }
static const char *name_out(const struct typing_at *a) { return a->p->slots[a->s->out[0]].name; }
static const char *name_weight(const struct typing_at *a, int i) { return a->p->params[a->s->weight[i]].name; }
static bool has(const struct shape *s, char tag) { return shape_axis(s, tag) != NULL; }

/* Refuse in one line: the slot or param, the factor, the rewrite, and the rule. */
__attribute__((format(printf, 3, 4))) static enum status refuse(const struct typing_at *a, const char *name,
                                                                const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return FAIL(E_INTERNAL, "types after %s: %s over %s: %s (%s makes %s: rule %s)", a->rewrite, name, a->factor, text,
                a->s->op->name, name_out(a), typing_rules[a->s->op->typing].name);
}

static enum status refuse_partial(const struct typing_at *a, const char *name) {
    return refuse(a, name, "P, a partial sum, which must be added up before it is used");
}

/* ---- products: y = sum of a b over the axes that a and b share and y lacks ---- */
struct operand { struct spread spread; const struct shape *shape; const char *name; };

static enum status product_sharded(const struct typing_at *at, const struct operand *a, const struct operand *b,
                                   const struct shape *y, struct spread *out) {
    const struct operand *s = spread_is(a->spread, SHARDED) ? a : b, *other = s == a ? b : a;
    char tag = s->spread.tag;
    if (spread_is(other->spread, SHARDED) && !spread_alike(s->spread, other->spread))
        return refuse(at, s->name, "%s, and %s is %s", spread_text(s->spread), other->name,
                      spread_text(other->spread));
    if (!spread_is(other->spread, SHARDED) && has(other->shape, tag))
        return refuse(at, s->name, "%s, and %s has all of axis %c", spread_text(s->spread), other->name, tag);
    *out = has(y, tag) ? s->spread : spread_of(PARTIAL, 0);
    return OK;
}

static enum status product(const struct typing_at *at, struct operand a, struct operand b, const struct shape *y,
                           struct spread *out) {
    const struct operand *p = spread_is(a.spread, PARTIAL) ? &a : &b, *other = p == &a ? &b : &a;
    *out = spread_of(REPLICATED, 0);
    if (spread_is(a.spread, VARYING) || spread_is(b.spread, VARYING)) *out = spread_of(VARYING, 0);
    else if (spread_is(p->spread, PARTIAL)) {
        if (!spread_is(other->spread, REPLICATED)) return refuse_partial(at, p->name);
        *out = p->spread;
    } else if (spread_is(a.spread, SHARDED) || spread_is(b.spread, SHARDED)) {
        return product_sharded(at, &a, &b, y, out);
    }
    return OK;
}

static struct operand operand_in(const struct typing_at *a, int i) {
    return (struct operand){a->in[i], shape_in(a, i), name_in(a, i)};
}
static struct operand operand_weight(const struct typing_at *a) {
    return (struct operand){a->weight[0], shape_weight(a, 0), name_weight(a, 0)};
}

/* The bias must be sharded like the same axes of y. */
static enum status check_bias(const struct typing_at *a, struct spread y) {
    const struct shape *b = shape_weight(a, 1);
    bool along = spread_is(y, SHARDED) && has(b, y.tag);
    if (spread_is(y, PARTIAL))
        return refuse(a, name_weight(a, 1), "a bias, and every rank would add it to a part of the sum %s", name_out(a));
    if (spread_is(y, VARYING) || spread_alike(a->weight[1], along ? y : spread_of(REPLICATED, 0))) return OK;
    return refuse(a, name_weight(a, 1), "%s, and what it is added to, %s, is %s", spread_text(a->weight[1]),
                  name_out(a), spread_text(y));
}

static enum status product_forward(struct typing_at *a) {
    TRY(product(a, operand_in(a, 0), operand_weight(a), shape_out(a, 0), &a->out[0]));
    return a->s->n_weight > 1 ? check_bias(a, a->out[0]) : OK;
}

static struct spread bias_gradient(const struct typing_at *a, struct spread dy) {
    return spread_is(dy, SHARDED) && !has(shape_weight(a, 1), dy.tag) ? spread_of(PARTIAL, 0) : dy;
}

/* dx = dy W, dW = dy x, db = sum of dy. */
static enum status product_backward(struct typing_at *a) {
    struct operand dy = {a->dout[0], shape_out(a, 0), name_out(a)};
    TRY(product(a, dy, operand_weight(a), shape_in(a, 0), &a->din[0]));
    TRY(product(a, dy, operand_in(a, 0), shape_weight(a, 0), &a->dweight[0]));
    if (a->s->n_weight > 1) a->dweight[1] = bias_gradient(a, dy.spread);
    return OK;
}

/* ---- look-ups ---- */
/* Is the table sharded by its rows? `rows`: the table's axis that the numbers index. */
static bool by_rows(const struct typing_at *a, int rows) {
    return spread_is(a->weight[0], SHARDED) && a->weight[0].tag == shape_weight(a, 0)->axis[rows].tag;
}
static enum status lookup_rows(struct typing_at *a, int rows) {
    if (spread_is(a->in[0], PARTIAL)) return refuse_partial(a, name_in(a, 0));
    if (spread_is(a->weight[0], SHARDED) && !spread_is(a->in[0], REPLICATED))
        return refuse(a, name_weight(a, 0), "%s, and the numbers in %s are %s: not all ranks look up the same",
                      spread_text(a->weight[0]), name_in(a, 0), spread_text(a->in[0]));
    a->out[0] = by_rows(a, rows)                   ? spread_of(PARTIAL, 0)
                : spread_is(a->weight[0], SHARDED) ? a->weight[0]
                                                   : a->in[0];
    return OK;
}
static enum status lookup_forward(struct typing_at *a) { return lookup_rows(a, 0); }
static enum status lookup_backward(struct typing_at *a) {
    a->dweight[0] = spread_is(a->weight[0], SHARDED) ? a->weight[0]
                    : spread_is(a->dout[0], SHARDED) ? spread_of(PARTIAL, 0)
                                                     : a->dout[0];
    return OK;
}

/* Bags: if the tables are sharded, each rank looks up in its own tables. */
static enum status bag_forward(struct typing_at *a) {
    char tables = shape_weight(a, 0)->axis[0].tag;
    if (!spread_is(a->weight[0], SHARDED) || a->weight[0].tag != tables) return lookup_rows(a, 1);
    if (!spread_alike(a->in[0], a->weight[0]))
        return refuse(a, name_in(a, 0), "%s, and the tables that it looks up in are %s", spread_text(a->in[0]),
                      spread_text(a->weight[0]));
    a->out[0] = a->weight[0];
    return OK;
}
static enum status bag_backward(struct typing_at *a) {
    TRY(lookup_backward(a));
    a->dweight[1] = a->dweight[0];                                   /* the optimizer's state of the rows */
    return OK;
}

/* ---- local: no sum over ranks, forward or backward ---- */
static bool mixes(const struct typing_at *a, char tag) { return a->s->op->mixes && strchr(a->s->op->mixes, tag); }

/* Do all shards of in[0] read input i whole? */
static bool serves_all(const struct typing_at *a, int i) {
    return spread_is(a->in[0], SHARDED) && spread_is(a->in[i], REPLICATED) && !has(shape_in(a, i), a->in[0].tag);
}

static enum status same_places(const struct typing_at *a) {
    for (int i = 0; i < a->s->n_in; i++) {
        if (spread_is(a->in[i], PARTIAL)) return refuse_partial(a, name_in(a, i));
        if (serves_all(a, i)) continue;
        if (spread_is(a->in[i], VARYING) || spread_is(a->in[0], VARYING) || spread_alike(a->in[0], a->in[i])) continue;
        return refuse(a, name_in(a, i), "%s, and %s next to it is %s", spread_text(a->in[i]), name_in(a, 0),
                      spread_text(a->in[0]));
    }
    return OK;
}

/* A weight fits x if it is R, or if it is sharded as x is. */
static enum status check_local_weight(const struct typing_at *a, int i) {
    struct spread x = a->in[0], w = a->weight[i];
    if (spread_is(w, REPLICATED) || spread_is(x, VARYING) || spread_is(w, VARYING) || spread_alike(x, w)) return OK;
    return refuse(a, name_weight(a, i), "%s, and %s is %s", spread_text(w), name_in(a, 0), spread_text(x));
}

static enum status check_mixed(const struct typing_at *a) {
    struct spread x = a->in[0];
    bool across = a->s->op->typing == TYPING_LOCAL_ACROSS && a->over;
    char first = a->s->op->mixes ? a->s->op->mixes[0] : 0;
    if (across && !spread_alike(x, spread_of(SHARDED, first)) && !spread_is(x, VARYING))
        return refuse(a, name_in(a, 0), "%s, and it must be S(%c): its shards meet here", spread_text(x), first);
    if (!across && spread_is(x, SHARDED) && mixes(a, x.tag))
        return refuse(a, name_in(a, 0), "%s, and each place needs all of axis %c", spread_text(x), x.tag);
    return OK;
}

static enum status local_forward(struct typing_at *a) {
    TRY(same_places(a));
    TRY(check_mixed(a));
    for (int i = 0; i < a->s->n_weight; i++)
        if (!a->p->params[a->s->weight[i]].cache) TRY(check_local_weight(a, i));
    for (int i = 0; i < a->s->n_out; i++) {
        bool lost = spread_is(a->in[0], SHARDED) && !has(shape_out(a, i), a->in[0].tag);
        bool summed = a->over && a->s->op->statistic_out >> i & 1;     /* by the op, over the shards that meet in it */
        if (lost && !summed)
            return refuse(a, name_in(a, 0), "%s, and %s has no such axis", spread_text(a->in[0]),
                          a->p->slots[a->s->out[i]].name);
        a->out[i] = lost ? spread_of(REPLICATED, 0) : a->in[0];
    }
    return OK;
}

/* If dy is sharded, dx is sharded like x; otherwise dx has dy's type. A replicated weight, or an input without the
 * sharded axis, used by all shards of dy, gets a part of its gradient from each. */
static enum status local_backward(struct typing_at *a) {
    struct spread dy = a->dout[0];
    for (int i = 0; i < a->s->n_in; i++)
        a->din[i] = !spread_is(dy, SHARDED) ? dy : serves_all(a, i) ? spread_of(PARTIAL, 0) : a->in[i];
    for (int i = 0; i < a->s->n_weight; i++)
        a->dweight[i] = !spread_is(dy, SHARDED)              ? dy
                        : spread_is(a->weight[i], SHARDED) ? a->weight[i]
                                                           : spread_of(PARTIAL, 0);
    return OK;
}

/* ---- losses: a sum over tokens, which gives the first gradient ---- */
static bool is_across(const struct typing_at *a) {
    return a->over && (a->s->op->typing == TYPING_LOSS_ACROSS || a->s->op->typing == TYPING_HEAD_ACROSS);
}

static enum status loss_of(struct typing_at *a, struct operand logits) {
    struct spread x = logits.spread, target = a->in[1];
    char summed = a->s->op->mixes[0];
    if (spread_is(x, PARTIAL)) return refuse_partial(a, logits.name);
    if (is_across(a) && !(spread_is(x, SHARDED) && x.tag == summed) && !spread_is(x, VARYING))
        return refuse(a, logits.name, "%s, and the loss would add it up as S(%c)", spread_text(x), summed);
    if (!is_across(a) && spread_is(x, SHARDED) && x.tag == summed)
        return refuse(a, logits.name, "%s, and the loss of a token needs all of axis %c", spread_text(x), summed);
    if (!spread_is(x, VARYING) && !spread_alike(target, is_across(a) ? spread_of(REPLICATED, 0) : x))
        return refuse(a, name_in(a, 1), "%s, and the logits %s are %s", spread_text(target), logits.name,
                      spread_text(x));
    a->out[0] = spread_is(target, REPLICATED) ? target : spread_of(PARTIAL, 0);
    for (int i = 1; i < a->s->n_out; i++) a->out[i] = target;
    return OK;
}

static enum status loss_forward(struct typing_at *a) { return loss_of(a, operand_in(a, 0)); }
static enum status loss_backward(struct typing_at *a) {
    a->din[0] = a->in[0];
    return OK;
}

/* The shape of the logits, which the head does not store: (B,T,V) of x (B,T,C) and W (V,C). */
static struct shape logits_shape(const struct typing_at *a) {
    struct shape y = *shape_in(a, 0);
    y.axis[y.n_axes - 1] = shape_weight(a, 0)->axis[0];
    return y;
}
static enum status head_logits(const struct typing_at *a, const struct shape *shape, struct operand *y) {
    *y = (struct operand){spread_of(SPREAD_NONE, 0), shape, name_in(a, 0)};
    return product(a, operand_in(a, 0), operand_weight(a), shape, &y->spread);
}
static enum status head_forward(struct typing_at *a) {
    const struct shape shape = logits_shape(a);
    struct operand y;
    TRY(head_logits(a, &shape, &y));
    if (a->s->n_weight > 1) TRY(check_bias(a, y.spread));
    return loss_of(a, y);
}
static enum status head_backward(struct typing_at *a) {
    const struct shape shape = logits_shape(a);
    struct operand dy;
    TRY(head_logits(a, &shape, &dy));
    TRY(product(a, dy, operand_weight(a), shape_in(a, 0), &a->din[0]));
    if (a->s->n_weight > 1) a->dweight[1] = bias_gradient(a, dy.spread);
    return product(a, dy, operand_in(a, 0), shape_weight(a, 0), &a->dweight[0]);
}

/* ---- sums and exchanges over the step's axis; over other factors the type passes unchanged ---- */
static enum status becomes(const struct typing_at *a, const char *name, struct spread have, struct spread want,
                           struct spread to, struct spread *out, const char *why) {
    *out = have;
    if (!a->over || spread_is(have, VARYING)) return OK;
    if (!spread_alike(have, want) || (want.tag && have.tag != want.tag))
        return refuse(a, name, "%s, and it must be %s: %s", spread_text(have), spread_text(want), why);
    *out = to;
    return OK;
}
#define R_ spread_of(REPLICATED, 0)
#define P_ spread_of(PARTIAL, 0)
static const char COUNTED[] = "all-reduced, it would be counted once per rank";

static enum status sum_backward_forward(struct typing_at *a) {
    return becomes(a, name_in(a, 0), a->in[0], R_, R_, &a->out[0], "all ranks go on from the same");
}
static enum status sum_backward_backward(struct typing_at *a) {
    return becomes(a, name_out(a), a->dout[0], P_, R_, &a->din[0], "of its gradient each rank has a part to add");
}
static enum status sum_forward(struct typing_at *a) {
    return becomes(a, name_in(a, 0), a->in[0], P_, R_, &a->out[0], COUNTED);
}
static enum status sum_then_nothing(struct typing_at *a) {
    return becomes(a, name_out(a), a->dout[0], R_, R_, &a->din[0], "its gradient is not added up after this");
}

/* S of the axis that is smaller in `part` than in `whole`; R if no axis is smaller. */
static struct spread narrowed(const struct shape *whole, const struct shape *part) {
    for (int i = 0; i < whole->n_axes && i < part->n_axes; i++)
        if (whole->axis[i].n != part->axis[i].n) return spread_of(SHARDED, whole->axis[i].tag);
    return R_;
}
static enum status gather_forward(struct typing_at *a) {
    struct spread shard = narrowed(shape_out(a, 0), shape_in(a, 0));
    return becomes(a, name_in(a, 0), a->in[0], shard, R_, &a->out[0], "its shards are gathered");
}
static enum status gather_backward(struct typing_at *a) {
    return becomes(a, name_out(a), a->dout[0], P_, a->in[0], &a->din[0], "of its gradient each rank has a part to add");
}
static enum status scatter_forward(struct typing_at *a) {
    struct spread shard = narrowed(shape_in(a, 0), shape_out(a, 0));
    return becomes(a, name_in(a, 0), a->in[0], P_, shard, &a->out[0], COUNTED);
}
static enum status scatter_backward(struct typing_at *a) {
    return becomes(a, name_out(a), a->dout[0], a->out[0], R_, &a->din[0], "the shards of its gradient are gathered");
}
static enum status exchange_forward(struct typing_at *a) {
    const struct reshard_rule *r = &a->s->reshard;
    return becomes(a, name_in(a, 0), a->in[0], spread_of(SHARDED, r->gathers), spread_of(SHARDED, r->cuts), &a->out[0],
                   "its shards are exchanged");
}
static enum status exchange_backward(struct typing_at *a) {
    const struct reshard_rule *r = &a->s->reshard;
    return becomes(a, name_out(a), a->dout[0], spread_of(SHARDED, r->cuts), spread_of(SHARDED, r->gathers), &a->din[0],
                   "the shards of its gradient are exchanged");
}

/* ---- experts: tokens (B,T,..) become rows (E,P,R,..), P the sending rank; E, P and R are moe/'s letters ---- */
/* The type of the rows that tokens of this type make. */
static struct spread rows_of(const struct typing_at *a, struct spread tokens) {
    if (!spread_is(tokens, SHARDED)) return tokens;
    return spread_of(SHARDED, a->over ? 'P' : 'R');
}

static enum status check_senders(const struct typing_at *a, struct spread tokens, int i) {
    if (!a->over || !spread_is(tokens, REPLICATED)) return OK;
    return refuse(a, name_in(a, i), "R: all ranks would send the same tokens");
}

static enum status route_forward(struct typing_at *a) {
    TRY(same_places(a));
    TRY(check_mixed(a));
    for (int i = 0; i < a->s->n_weight; i++) TRY(check_local_weight(a, i));
    a->out[0] = a->out[1] = a->in[0];
    a->out[2] = spread_is(a->in[0], REPLICATED) ? a->in[0] : P_;     /* sums over tokens, and a loss */
    return OK;
}
static enum status route_backward(struct typing_at *a) {
    a->din[0] = a->dout[0];
    for (int i = 0; i < a->s->n_weight; i++) a->dweight[i] = spread_is(a->dout[0], SHARDED) ? P_ : a->dout[0];
    if (!spread_is(a->dout[0], PARTIAL)) return OK;
    return refuse(a, name_out(a), "its gradient is P, and every rank would add that of its own loss to a part");
}

static enum status pack_forward(struct typing_at *a) {
    TRY(check_senders(a, a->in[0], 0));
    a->out[0] = a->in[0];
    a->out[1] = a->over || !spread_is(a->in[0], SHARDED) ? rows_of(a, a->in[0]) : spread_of(VARYING, 0);
    return OK;
}
static enum status nothing(struct typing_at *a) {
    (void)a;
    return OK;
}

static enum status dispatch_forward(struct typing_at *a) {
    TRY(same_places(a));
    TRY(check_senders(a, a->in[0], 0));
    a->out[0] = rows_of(a, a->in[0]);
    return OK;
}
static enum status dispatch_backward(struct typing_at *a) {
    a->din[0] = spread_is(a->dout[0], SHARDED) ? a->in[0] : a->dout[0];
    return OK;
}

static enum status combine_forward(struct typing_at *a) {
    struct spread rows = rows_of(a, a->in[1]);
    if (spread_is(a->in[0], PARTIAL)) return refuse_partial(a, name_in(a, 0));
    if (!spread_is(a->in[0], VARYING) && !spread_is(rows, VARYING) && !spread_alike(a->in[0], rows))
        return refuse(a, name_in(a, 0), "%s, and the rows of this rank's tokens are %s", spread_text(a->in[0]),
                      spread_text(rows));
    if (!spread_is(a->in[2], VARYING) && !spread_alike(a->in[2], a->in[1]))
        return refuse(a, name_in(a, 2), "%s, and %s next to it is %s", spread_text(a->in[2]), name_in(a, 1),
                      spread_text(a->in[1]));
    a->out[0] = a->in[1];
    return OK;
}
static enum status combine_backward(struct typing_at *a) {
    bool sharded = spread_is(a->dout[0], SHARDED);
    a->din[0] = sharded ? a->in[0] : a->dout[0];
    a->din[2] = sharded ? a->in[2] : a->dout[0];
    return OK;
}

const struct typing_rules typing_rules[N_TYPINGS] = {
    [TYPING_NONE] = {.name = "none"},
    [TYPING_LOCAL] = {"local", local_forward, local_backward, NOTHING, NOTHING},
    [TYPING_LOCAL_ACROSS] = {"local across shards", local_forward, local_backward, ANYTHING, ANYTHING},
    [TYPING_PRODUCT] = {"product", product_forward, product_backward, NOTHING, NOTHING},
    [TYPING_LOOKUP] = {"look-up", lookup_forward, lookup_backward, NOTHING, NOTHING},
    [TYPING_BAG] = {"bag", bag_forward, bag_backward, NOTHING, NOTHING},
    [TYPING_LOSS] = {"loss", loss_forward, loss_backward, NOTHING, NOTHING},
    [TYPING_LOSS_ACROSS] = {"loss across shards", loss_forward, loss_backward, COMM_ALL_REDUCE, NOTHING},
    [TYPING_HEAD] = {"head", head_forward, head_backward, NOTHING, NOTHING},
    [TYPING_HEAD_ACROSS] = {"head across shards", head_forward, head_backward, NOTHING, COMM_ALL_REDUCE},
    [TYPING_SUM_BACKWARD] = {"sum backward", sum_backward_forward, sum_backward_backward, NOTHING, COMM_ALL_REDUCE},
    [TYPING_SUM] = {"sum", sum_forward, sum_then_nothing, COMM_ALL_REDUCE, NOTHING},
    [TYPING_GATHER] = {"gather", gather_forward, gather_backward, COMM_ALL_GATHER, COMM_REDUCE_SCATTER},
    [TYPING_SCATTER] = {"scatter", scatter_forward, scatter_backward, COMM_REDUCE_SCATTER, COMM_ALL_GATHER},
    [TYPING_EXCHANGE] = {"exchange", exchange_forward, exchange_backward, COMM_ALL_TO_ALL, COMM_ALL_TO_ALL},
    [TYPING_ROUTE] = {"route", route_forward, route_backward, NOTHING, NOTHING},
    [TYPING_PACK] = {"pack", pack_forward, nothing, NOTHING, NOTHING},
    [TYPING_DISPATCH] = {"dispatch", dispatch_forward, dispatch_backward, NOTHING, NOTHING},
    [TYPING_COMBINE] = {"combine", combine_forward, combine_backward, NOTHING, NOTHING},
};
