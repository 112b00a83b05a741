/* nano in a test: its files, with each of the three functions that hold the ideas chosen at run time, every message
 * counted, and every wait ended after a while. The tests of lesson 29's exercises include this. It is collective: all
 * ranks of the world train. train() is nano's main. A rank that leaves a run leaves it for good, with its memory.
 *
 * A test defines YOURS_LAYER, YOURS_SCHEDULE or YOURS_UPDATE: which function is graded. For the other two, and for the
 * run on one rank that all are compared with, the starters stand in: they are nano before its ideas. */
#pragma once

#define MY_LAYER
#define MY_SCHEDULE
#define MY_UPDATE
#include "nano/nano.h"

#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- every wait ends: a rank that waits in vain leaves the run by a jump ---- */

static jmp_buf stuck;
static char stuck_at[160];

static void leave(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsnprintf(stuck_at, sizeof stuck_at, format, rest);
    va_end(rest);
    longjmp(stuck, 1);
}

static void wait_for(MPI_Request *request, const char *what) {
    const char *said = getenv("TEST_TIMEOUT");
    double end = MPI_Wtime() + 0.4 * (said ? atof(said) : 20);
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE), !done) {
        if (MPI_Wtime() > end) leave("rank %d waits in vain for %s", grid.rank, what);
        sched_yield();
    }
}

static MPI_Comm trained_on;              /* nano's world: all ranks, or this one */
static MPI_Comm all_ranks(void) { return MPI_COMM_WORLD; }

/* Data in flight lie in a copy: it stays where a rank leaves. */
enum { SUM, SCATTER, GATHER };
static void in_time(void *own, const void *from, int64_t n_from, int64_t n_to, MPI_Datatype type, MPI_Comm group,
                    int kind) {
    const char *const NOT_CALLED[] = {"a sum that another rank does not call",
                                      "a reduce-scatter that another replica does not call",
                                      "an all-gather that another replica does not call"};
    size_t size = sizeof(double);
    char *copy = malloc(size * (size_t)(n_from + n_to));
    void *in = copy, *out = copy + size * (size_t)n_from;
    MPI_Request request;
    memcpy(in, from, size * (size_t)n_from);
    if (kind == SUM) MPI_Iallreduce(in, out, (int)n_from, type, MPI_SUM, group, &request);
    if (kind == SCATTER) MPI_Ireduce_scatter_block(in, out, (int)n_to, type, MPI_SUM, group, &request);
    if (kind == GATHER) MPI_Iallgather(in, (int)n_from, type, out, (int)n_from, type, group, &request);
    wait_for(&request, NOT_CALLED[kind]);
    memcpy(own, out, size * (size_t)n_to);
    free(copy);
}
static void all_reduce_in_time(void *x, int n, MPI_Datatype type, MPI_Comm group) {
    in_time(x, x, n, n, type, group, SUM);
}
static void reduce_scatter_in_time(void *x, void *own, int n, MPI_Datatype type, MPI_Comm group) {
    int ranks;
    MPI_Comm_size(group, &ranks);
    in_time(own, x, (int64_t)n * ranks, n, type, group, SCATTER);
}
static void all_gather_in_time(void *x, int n, MPI_Datatype type, MPI_Comm group) {
    int rank, ranks;
    MPI_Comm_rank(group, &rank);
    MPI_Comm_size(group, &ranks);
    in_time(x, (real *)x + (int64_t)n * rank, n, (int64_t)n * ranks, type, group, GATHER);
}
static void receive_in_time(void *x, int n, MPI_Datatype type, int from, int tag, MPI_Comm group) {
    MPI_Request request;
    void *copy = malloc(sizeof(real) * (size_t)n);
    MPI_Irecv(copy, n, type, from, tag, group, &request);
    wait_for(&request, tag ? "activations that the stage below does not send"
                           : "gradients that the stage above does not send");
    memcpy(x, copy, sizeof(real) * (size_t)n);
    free(copy);
}

/* ---- nano's files, these calls and those that are counted under other names ---- */

static void chosen_layer_forward(const struct model *, const real *const *, const real *, const struct layer *, real *);
static void chosen_layer_backward(const struct model *, const real *const *, real *const *, const real *,
                                  const struct layer *, real *);
static double chosen_forward_backward(struct model *, struct kept **, int64_t, int *, int *);
static double chosen_update(struct model *, const struct states *, int);
double nano_model_forward(struct model *, struct kept *, const int *, const int *);
void nano_model_backward(struct model *, struct kept *, const int *);
void nano_tp_sum(real *, int64_t), nano_dp_sum(real *, int64_t), nano_stage_finish(void);
void nano_dp_reduce_scatter(real *, int64_t), nano_dp_all_gather(real *, int64_t), nano_model_tie(struct model *);
void nano_stage_send(int, const real *, int64_t);
int nano_main(int, char **);

#include "nano/ops.c"

#define layer_forward chosen_layer_forward
#define layer_backward chosen_layer_backward
#define model_forward nano_model_forward
#define model_backward nano_model_backward
#define model_tie nano_model_tie
#include "nano/model.c"
#undef model_forward
#undef model_backward
#undef model_tie
#undef layer_forward
#undef layer_backward

#undef MPI_COMM_WORLD
#define MPI_COMM_WORLD trained_on
#define MPI_Allreduce(from, x, n, type, op, group) all_reduce_in_time(x, n, type, group)
#define MPI_Reduce_scatter_block(x, own, n, type, op, group) reduce_scatter_in_time(x, own, n, type, group)
#define MPI_Allgather(from, none, of, x, n, type, group) all_gather_in_time(x, n, type, group)
#define MPI_Recv(x, n, type, from, tag, group, status) receive_in_time(x, n, type, from, tag, group)
#define MPI_Wait(request, status) wait_for(request, "a message of its own that nothing receives")
#define tp_sum nano_tp_sum
#define dp_sum nano_dp_sum
#define dp_reduce_scatter nano_dp_reduce_scatter
#define dp_all_gather nano_dp_all_gather
#define stage_send nano_stage_send
#define stage_finish nano_stage_finish
#include "nano/parallel.c"
#undef tp_sum
#undef dp_sum
#undef dp_reduce_scatter
#undef dp_all_gather
#undef stage_send
#undef stage_finish

#define main nano_main
#define data_microbatch nano_data_microbatch
void nano_data_microbatch(const struct plan *, int64_t, int, int *, int *);
#define forward_backward chosen_forward_backward
#define update chosen_update
#include "nano/train.c"
#undef main
#undef data_microbatch
#undef forward_backward
#undef update

/* ---- what is counted ---- */

enum { STEPS = 5, EVENTS = 64, MOST = 64 };

/* A forward or a backward of a microbatch (the one that was read last), and where its activations are kept. */
struct event { char what; int k; const struct kept *kept; };

/* This rank's calls in the last step, and the numbers that they sum or move. */
struct counts {
    int tp_sums, dp_sums, scatters, gathers, ties, n_events;
    int64_t tp_numbers, dp_numbers, scattered, gathered;
    bool unfinished;                     /* sends were under way when the schedule returned */
    struct event events[EVENTS];
};
static struct counts counts;
static int read_last;
static struct kept *const *kept_of_run;

void tp_sum(real *x, int64_t n) { counts.tp_sums++, counts.tp_numbers += n, nano_tp_sum(x, n); }
void dp_sum(real *x, int64_t n) { counts.dp_sums++, counts.dp_numbers += n, nano_dp_sum(x, n); }
void dp_reduce_scatter(real *x, int64_t n) { counts.scatters++, counts.scattered += n, nano_dp_reduce_scatter(x, n); }
void dp_all_gather(real *x, int64_t n) { counts.gathers++, counts.gathered += n, nano_dp_all_gather(x, n); }
void model_tie(struct model *m) { counts.ties++, nano_model_tie(m); }
void stage_send(int way, const real *x, int64_t n) { counts.unfinished = true, nano_stage_send(way, x, n); }
void stage_finish(void) { nano_stage_finish(), counts.unfinished = false; }
void data_microbatch(const struct plan *p, int64_t step, int k, int *tokens, int *targets) {
    int n = p->global_batch / (p->micro_batch * grid.d);
    if (k < 0 || k >= n) leave("stage %d reads microbatch %d; there are 0 to %d", grid.p_i, k, n - 1);
    read_last = k;
    nano_data_microbatch(p, step, k, tokens, targets);
}

static void note(char what, const struct kept *kept) {
    int i = 0;
    while (kept && kept_of_run[i] && kept_of_run[i] != kept) i++;
    if (!kept || !kept_of_run[i])
        leave("stage %d takes an entry of kept at or above %d = p - i", grid.p_i, grid.p - grid.p_i);
    if (counts.n_events < EVENTS) counts.events[counts.n_events++] = (struct event){what, read_last, kept};
}
double model_forward(struct model *m, struct kept *kept, const int *tokens, const int *targets) {
    note('F', kept);
    return nano_model_forward(m, kept, tokens, targets);
}
void model_backward(struct model *m, struct kept *kept, const int *tokens) {
    note('B', kept);
    nano_model_backward(m, kept, tokens);
}

/* ---- nano before its ideas ---- */

#define layer_forward plain_layer_forward
#define layer_backward plain_layer_backward
#define add_to plain_add_to
#include "lessons/29-nano/layer/layer.c"
#undef layer_forward
#undef layer_backward
#undef add_to
#define forward_backward plain_forward_backward
#include "lessons/29-nano/schedule/schedule.c"
#undef forward_backward
#define update plain_update
#include "lessons/29-nano/update/update.c"
#undef update

static bool yours;                       /* this run is with the learner's function */

static void chosen_layer_forward(const struct model *m, const real *const *w, const real *x, const struct layer *k,
                                 real *y) {
#ifdef YOURS_LAYER
    if (yours) {
        layer_forward(m, w, x, k, y);
        return;
    }
#endif
    plain_layer_forward(m, w, x, k, y);
}
static void chosen_layer_backward(const struct model *m, const real *const *w, real *const *dw, const real *x,
                                  const struct layer *k, real *d) {
#ifdef YOURS_LAYER
    if (yours) {
        layer_backward(m, w, dw, x, k, d);
        return;
    }
#endif
    plain_layer_backward(m, w, dw, x, k, d);
}
static double chosen_forward_backward(struct model *m, struct kept **kept, int64_t step, int *tokens, int *targets) {
#ifdef YOURS_SCHEDULE
    if (yours) return forward_backward(m, kept, step, tokens, targets);
#endif
    return plain_forward_backward(m, kept, step, tokens, targets);
}
static double chosen_update(struct model *m, const struct states *s, int step) {
#ifdef YOURS_UPDATE
    if (yours) return update(m, s, step);
#endif
    return plain_update(m, s, step);
}

/* ---- a run ---- */

/* Sizes of tensor, data and pipeline parallelism; nano's options. */
struct layout_of_run { int t, d, p, zero, recompute, micro; };

/* hung: why it did not end; then losses are missing. Losses and norms are of all ranks. foreign: a number that is not
 * this rank's to write was written. apart: replicas have different weights after the last step. */
struct outcome {
    char hung[200];
    double loss[STEPS], norm[STEPS];
    struct counts counts;
    bool foreign, apart;
    int64_t shard;
};

static struct plan plan_of_run(const struct layout_of_run *l) {
    return (struct plan){.layers = 4, .hidden = 20, .heads = 4, .vocab = 128, .seq = 9, .micro_batch = l->micro,
                         .global_batch = 8, .steps = STEPS, .warmup = 2, .seed = 7, .zero = l->zero,
                         .recompute = l->recompute, .lr = 2e-3, .min_lr = -1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6,
                         .weight_decay = 0.1, .clip = 1, .data = "configs/demo.txt"};
}
static void grid_of_run(const struct layout_of_run *l, bool alone) {
    trained_on = alone ? MPI_COMM_SELF : all_ranks();
    grid_init(l->t, l->d, l->p);
}

static void forget_sends(void) {
    for (int i = 0; i < 2; i++) sent[i].request = MPI_REQUEST_NULL, sent[i].copy = NULL;
}

/* This replica's weights against those of replica 0. */
static bool are_apart(const struct model *m) {
    real *first = malloc(sizeof(real) * (size_t)m->n);
    bool differ = false;
    memcpy(first, m->w, sizeof(real) * (size_t)m->n);
    if (grid.d_i) memset(first, 0, sizeof(real) * (size_t)m->n);
    nano_dp_sum(first, m->n);
    for (int64_t i = 0; i < m->n; i++) differ |= !(first[i] == m->w[i]);
    free(first);
    return differ;
}

/* The steps of nano's main. With ZeRO moments beyond the shard are NaN: if one is read or written, it shows. A layout
 * with recompute may be trained once in a process, because nano's layers share one room. */
static void train(const struct layout_of_run *l, bool with_yours, struct outcome *o) {
    static struct plan p;
    static struct model m;
    static struct states s;
    static struct kept *kept[MOST];
    static int tokens[MOST * 9], targets[MOST * 9];
    p = plan_of_run(l);
    grid_of_run(l, !with_yours);
    if (!text) data_open(&p);
    model_init(&m, &p);
    int n = p.global_batch / (p.micro_batch * grid.d), n_kept = n;
#ifdef YOURS_SCHEDULE
    if (with_yours) n_kept = grid.p - grid.p_i;
#endif
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < n_kept; i++) kept[i] = kept_new(&m);
    int64_t all = m.shard * grid.d, own = p.zero ? m.shard : all;
    s = (struct states){reals(all), reals(all)};
    for (int64_t i = own; i < all; i++) s.m[i] = s.v[i] = NAN;
    kept_of_run = kept, yours = with_yours, o->shard = m.shard;
    for (int i = 0; i < STEPS; i++) o->loss[i] = o->norm[i] = NAN;
    if (setjmp(stuck)) {
        snprintf(o->hung, sizeof o->hung, "%s", stuck_at);
        forget_sends();
        return;
    }
    for (int step = 0; step < STEPS; step++) {
        memset(&counts, 0, sizeof counts);
        double loss = chosen_forward_backward(&m, kept, step, tokens, targets);
        o->norm[step] = chosen_update(&m, &s, step);
        o->loss[step] = world_sum(grid.t_i == 0 ? loss : 0);
    }
    o->counts = counts;
    o->apart = are_apart(&m);
    for (int64_t i = own; i < all; i++) o->foreign |= !isnan(s.m[i]) || !isnan(s.v[i]);
}

/* ---- what the tests ask. From here on nano is not in the way of the tests' own names ---- */

#undef MPI_COMM_WORLD
#undef MPI_Allreduce
#undef MPI_Reduce_scatter_block
#undef MPI_Allgather
#undef MPI_Recv
#undef MPI_Wait

#include "tests/test.h"

static int world_size(void) {
    int n;
    MPI_Comm_size(all_ranks(), &n);
    return n;
}

/* A layout as a learner types it. Static storage, one at a time. */
static const char *name_of(const struct layout_of_run *l) {
    static char name[120];
    snprintf(name, sizeof name, "--tp %d --dp %d --pp %d --zero %d --recompute %d --micro-batch %d", l->t, l->d, l->p,
             l->zero, l->recompute, l->micro);
    return name;
}

/* All ranks fail, if one has a reason; with its own, or another's. why: empty if there is none. */
static void agree_on(const char *why) {
    if (agree_all(!*why)) return;
    fail_msg("%s", *why ? why : "on another rank");
}

/* Every wait of a run ends, so all ranks come here, late where another has waited: it has no deadline. */
static bool any_hung(bool own) {
    int hung = own;
    MPI_Allreduce(MPI_IN_PLACE, &hung, 1, MPI_INT, MPI_MAX, all_ranks());
    return hung;
}

static const struct outcome *one_rank(void) {
    static struct outcome serial;
    static bool is_trained;
    if (!is_trained) train(&(struct layout_of_run){1, 1, 1, 0, 0, 1}, false, &serial);
    is_trained = true;
    return &serial;
}

/* Layout i of LAYOUTS, trained by all ranks when it is first asked for. Once one has hung, no other is trained. */
static const struct outcome *outcome_of(const struct layout_of_run *layouts, int i) {
    static struct outcome found[16];
    static bool is_trained[16], has_hung;
    one_rank();
    if (!is_trained[i]) {
        if (has_hung) snprintf(found[i].hung, sizeof found[i].hung, "not tried: another layout hangs");
        else train(&layouts[i], true, &found[i]);
        if (any_hung(found[i].hung[0])) {
            has_hung = true;
            if (!found[i].hung[0]) snprintf(found[i].hung, sizeof found[i].hung, "another rank waits in vain");
        }
    }
    is_trained[i] = true;
    return &found[i];
}

/* One after the other, the layouts of this world. `for_each(i, LAYOUTS)`, then a block: i is the layout's index. */
#define for_each(i, layouts)                                                                                           \
    for (int i = 0; i < (int)(sizeof(layouts) / sizeof *(layouts)); i++)                                               \
        if ((layouts)[i].t * (layouts)[i].d * (layouts)[i].p == world_size())

/* Five steps in fp64: another order of sums changes a loss by less than 1e-14 of it, and AdamW, with eps = 1e-6, by
 * less than a hundred times that. */
static const double TWELVE_DIGITS = 1e-12;

static bool is_same(double x, double right) { return fabs(x - right) <= TWELVE_DIGITS * fabs(right); }

/* The first loss that is not that of one rank; "" if all are. */
static void look_at_losses(const struct layout_of_run *l, const struct outcome *o, char why[400]) {
    const struct outcome *serial = one_rank();
    *why = 0;
    if (o->hung[0]) snprintf(why, 400, "%s: %s", name_of(l), o->hung);
    for (int i = STEPS - 1; i >= 0 && !o->hung[0]; i--)
        if (!is_same(o->loss[i], serial->loss[i]))
            snprintf(why, 400, "%s: the loss of step %d is %.12f, and on one rank %.12f (%s)", name_of(l), i + 1,
                     o->loss[i], serial->loss[i], i ? "backward or the update is wrong: the first loss is right"
                     : "the first loss: forward is wrong");
}
