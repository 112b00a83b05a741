/* Orders by list scheduling: one simulated run of all ranks.
 *
 * A free rank takes the action that can begin first: a backward whose gradient has arrived, or a forward within its
 * limits. If no message arrives for a good part of W's time, the rank takes a weight gradient instead. The order in
 * which a rank takes actions is its schedule.
 *
 * Forwards of the deepest stage go first, and backwards of the shallowest: both are nearest to their end. A rank's
 * memory is counted in chunks of microbatches: F keeps one, B frees what W does not need, W the rest. A shallow stage
 * leaves room for the deeper stages of its rank; otherwise it fills the memory, and no microbatch ever comes back.
 *
 * Times are integers and ties go to the lower rank, so that every rank computes the same.
 *
 * What breaks: a decision by events that have not happened yet. A decision looks at messages that have been sent, never
 * at what other ranks will do. */
#include "pp/pp_orders.h"

#include "lib/base/grow.h"
#include "lib/base/integer.h"

enum { N_SEATS = 2, WHOLE = 1000 };   /* stages of a rank; a microbatch's activations of a chunk, in thousandths */
static const int64_t NEVER = INT64_MAX;

/* A stage on a rank: its next forward f and backward b, up to end; the time when each microbatch's input arrives. */
struct seat { int pipe, stage, f, b, end; int64_t *forward_at, *backward_at; };
struct choice { int64_t start; int priority; struct action action; };
struct rank {
    int64_t clock, kept;                /* time when the rank is free; memory that it uses */
    enum action_kind last;
    int n_w, first_w;
    struct action *w;                   /* weight gradients in the order in which they become possible */
    struct seat seat[N_SEATS];
    struct choice choice;               /* its next action, unless an input arrives earlier */
};
struct list {
    const struct pp_schedule *row;
    const struct pp_shape *x;
    const struct pp_policy *policy;
    int n_virtual;
    int64_t time[N_TAPES];
    struct rank *ranks;
    struct schedule *stages;
};

/* ---- the choice of a rank ---- */
static bool may_go_forward(const struct list *l, const struct rank *r, int c) {
    const struct seat *s = &r->seat[c], *other = &r->seat[!c];
    const struct pp_policy *p = l->policy;
    bool deeper = l->x->n_chunks == 2 && other->pipe == s->pipe && other->stage > s->stage;
    bool near = p->slope == 0 || s->f - s->b < p->slope * (l->n_virtual - s->stage) + p->more;
    bool room = p->memory == 0 || r->kept == 0 || r->kept + (deeper + 1) * WHOLE <= (int64_t)p->memory * WHOLE;
    return s->f < s->end && near && room;
}

static int priority_of(const struct list *l, const struct rank *r, enum action_kind kind, int stage) {
    bool turns = l->policy->prefer == PP_IN_TURNS && r->n_w > 0;     /* only after the first backward */
    bool first = turns ? kind != r->last : (kind == ACTION_F) == (l->policy->prefer == PP_FORWARD_FIRST);
    return (first ? 0 : 2 * l->n_virtual) + (kind == ACTION_F ? l->n_virtual - stage : stage);
}

static void offer(const struct list *l, struct rank *r, struct choice *best, int c, enum action_kind kind) {
    const struct seat *s = &r->seat[c];
    int microbatch = kind == ACTION_F ? s->f : s->b, priority = priority_of(l, r, kind, s->stage);
    int64_t at = kind == ACTION_F ? s->forward_at[microbatch] : s->backward_at[microbatch];
    if (at == NEVER) return;
    int64_t start = max64(at, r->clock);
    if (start > best->start || (start == best->start && priority >= best->priority)) return;
    *best = (struct choice){start, priority, action_of(kind, c, microbatch)};
}

static void decide(const struct list *l, struct rank *r) {
    struct choice best = {.start = NEVER};
    for (int c = 0; c < l->x->n_chunks; c++) {
        if (r->seat[c].b < r->seat[c].f) offer(l, r, &best, c, ACTION_B);
        if (may_go_forward(l, r, c)) offer(l, r, &best, c, ACTION_F);
    }
    bool gap = best.start == NEVER || 100 * (best.start - r->clock) >= l->policy->gap * l->time[TAPE_W];
    bool idle = best.start > r->clock && gap;
    if (l->row->split_weight && r->first_w < r->n_w && idle) best = (struct choice){r->clock, 0, r->w[r->first_w]};
    r->choice = best;
}

/* ---- the run ---- */
/* The input of stage + step arrives at time `at`, so its rank chooses again. */
static void arrive(struct list *l, const struct seat *from, int step, int microbatch, int64_t at) {
    if (from->stage + step < 0 || from->stage + step >= l->n_virtual) return;
    struct hop here = l->row->place->where(l->x, from->pipe, from->stage);
    struct hop h = l->row->place->where(l->x, from->pipe, from->stage + step);
    struct seat *s = &l->ranks[h.rank].seat[h.chunk];
    at += h.rank == here.rank ? 0 : l->x->cost.transfer;
    (step > 0 ? s->forward_at : s->backward_at)[microbatch] = at;
    decide(l, &l->ranks[h.rank]);
}

static void take(struct list *l, int rank) {
    struct rank *r = &l->ranks[rank];
    struct action a = r->choice.action;
    struct seat *s = &r->seat[a.chunk];
    bool split = l->row->split_weight;
    int64_t of_w = split ? (l->x->cost.held ? l->x->cost.held : WHOLE) : 0;
    pp_add(&l->stages[rank], a);
    r->clock = r->choice.start + l->time[a.kind];
    r->last = a.kind;
    if (a.kind == ACTION_F) {
        s->f++, r->kept += WHOLE;
        if (s->stage == l->n_virtual - 1) s->backward_at[a.microbatch] = r->clock;
    } else if (a.kind == ACTION_B) {
        s->b++, r->kept -= WHOLE - of_w;
        r->w[r->n_w++] = action_of(ACTION_W, a.chunk, a.microbatch);
    } else r->first_w++, r->kept -= of_w;
    decide(l, r);
    if (a.kind != ACTION_W) arrive(l, s, a.kind == ACTION_F ? +1 : -1, a.microbatch, r->clock);
}

/* ---- the run ---- */
static void seat_init(struct list *l, int pipe, int stage) {
    struct hop h = l->row->place->where(l->x, pipe, stage);
    struct seat *s = &l->ranks[h.rank].seat[h.chunk];
    int m = l->x->n_microbatches, half = l->row->place->n_pipes > 1 ? (m + 1) / 2 : m;
    *s = (struct seat){.pipe = pipe, .stage = stage, .f = pipe ? half : 0, .b = pipe ? half : 0,
                       .end = pipe ? m : half};
    s->forward_at = table_new(m, sizeof *s->forward_at);
    s->backward_at = table_new(m, sizeof *s->backward_at);
    for (int i = 0; i < m; i++) s->forward_at[i] = stage ? NEVER : 0, s->backward_at[i] = NEVER;
}

static int first_to_start(const struct list *l) {
    int who = 0;
    for (int i = 1; i < l->x->n_stages; i++)
        if (l->ranks[i].choice.start < l->ranks[who].choice.start) who = i;
    return l->ranks[who].choice.start == NEVER ? -1 : who;
}

bool pp_list(const struct pp_schedule *row, const struct pp_shape *x, const struct pp_policy *policy,
             struct schedule *stages) {
    struct pp_costs c = x->cost;
    struct list l = {row, x, policy, pp_n_virtual(row->place, x), {1, 1, 1}, NULL, stages};
    if (c.f) l.time[TAPE_F] = c.f, l.time[TAPE_B] = row->split_weight ? c.bi : c.bi + c.w, l.time[TAPE_W] = c.w;
    int64_t left = (int64_t)x->n_stages * x->n_microbatches * x->n_chunks / row->place->n_pipes;
    left *= row->split_weight ? 3 : 2;
    l.ranks = table_new(x->n_stages, sizeof *l.ranks);
    for (int pipe = 0; pipe < row->place->n_pipes; pipe++)
        for (int s = 0; s < l.n_virtual; s++) seat_init(&l, pipe, s);
    for (int i = 0; i < x->n_stages; i++) {
        l.ranks[i].w = table_new(x->n_microbatches * x->n_chunks, sizeof *l.ranks[i].w);
        decide(&l, &l.ranks[i]);
    }
    for (int who; (who = first_to_start(&l)) >= 0; left--) take(&l, who);
    for (int i = 0; i < x->n_stages; i++) {
        free(l.ranks[i].w);
        for (int k = 0; k < x->n_chunks; k++) free(l.ranks[i].seat[k].forward_at), free(l.ranks[i].seat[k].backward_at);
    }
    free(l.ranks);
    return left == 0;
}
