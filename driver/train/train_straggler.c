/* Every 20 steps ranks exchange their own times, and rank 0 names slow ranks (driver/train/straggler.h). --inject makes
 * a rank slow.
 *
 * The exchange is an all-gather of one fp64 per rank over the mesh; its bytes are in that group's ledger. It starts
 * after a window's last step and ends after the next step, so that no rank waits for it.
 *
 * --replace-stragglers: a rank asks for a replacement while it is slow (elastic/, launch --spares). --inject slows a
 * process, as a bad machine does, and not the process that replaces it. */
#include "driver/train/train_state.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/comm/membership/membership.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { HOST_BYTES = 64 };

struct train_watch {
    int n;                               /* ranks; 0: ranks are not compared */
    struct straggler_rank *of;           /* [n] */
    double *own_s;                       /* [n], of the last window */
    char (*host)[HOST_BYTES];            /* [n] */
    struct comm_request gathering;
    int steps, windows;                  /* steps of this window so far; gathered windows */
    double sum_s, mine_s;                /* own seconds of this window; their mean, in the all-gather */
    struct straggler_inject inject;
    double last_own_s;                   /* of the last step, without the injected part */
};

enum status train_watch_prepare(struct training *t) {
    const struct plan *p = &t->setup.plan;
    const char *inject = train_options(p)->inject;
    struct train_watch *w = t->watch = calloc(1, sizeof *w);
    if (!w) return FAIL(E_MEMORY, "no memory to watch for slow ranks");
    int n = plan_ranks(p);
    /* RANK numbers processes, of which later epochs may have more than ranks */
    TRY(straggler_inject_parse(inject, comm_epoch() == 0 ? n : MEMBERSHIP_MOST_RANKS, &w->inject));
    if (p->device != PLAN_DEVICE_CPU && inject[0])
        return FAIL(E_CONFIG, "inject=%s makes the host wait, and the GPU would not notice; use device=cpu", inject);
    if (p->device != PLAN_DEVICE_CPU || n == 1) return OK;
    w->of = calloc((size_t)n, sizeof *w->of);
    w->own_s = calloc((size_t)n, sizeof *w->own_s);
    w->host = calloc((size_t)n, sizeof *w->host);
    if (!w->of || !w->own_s || !w->host) return FAIL(E_MEMORY, "no memory to compare %d ranks", n);
    w->n = n;
    return OK;
}

/* The rank's stage; servers get a number of their own, because their work differs. */
static int peers_of(const struct plan *p, int rank) {
    const struct mesh_place at = mesh_place_of(&p->mesh, rank);
    return at.rank.pp + (at.rank.dp < p->workers ? 0 : at.n.pp);
}

enum status train_watch_begin(struct training *t) {
    struct train_watch *w = t->watch;
    char mine[HOST_BYTES] = "";
    if (t->run.loop.step) w->n = 0;                                  /* local steps: ranks must not wait here */
    if (w->n == 0) return OK;
    int32_t crowded = comm_local_size() > comm_local_cores() && w->inject.what == INJECT_NOTHING;
    TRY(comm_all_reduce(t->run.mesh.group[AXIS_MESH], &crowded, 1, INT32, COMM_MAX));
    if (crowded) {
        w->n = 0;
        return OK;
    }
    for (int r = 0; r < w->n; r++) w->of[r].stage = peers_of(&t->setup.plan, r);
    comm_host_name(mine, sizeof mine);
    return comm_all_gather(t->run.mesh.group[AXIS_MESH], mine, w->host, HOST_BYTES, UINT8);
}

void train_watch_destroy(struct training *t) {
    struct train_watch *w = t->watch;
    if (!w) return;
    free(w->of);
    free(w->own_s);
    free(w->host);
    free(w);
    t->watch = NULL;
}

/* This process's index: its rank in epoch 0. */
static int my_process(void) {
    struct membership now, from;
    comm_epoch_members(&now, &from);
    return now.slot[comm_world_rank()];
}

/* Progress communication while waiting, as a rank that computes does. */
double train_watch_slow_down(struct training *t) {
    struct train_watch *w = t->watch;
    const struct timespec nap = {0, 500000};
    if (w->inject.what != INJECT_SLOW_RANK || w->inject.rank != my_process() || w->last_own_s == 0) return 0;
    double from_s = clock_s(), until_s = from_s + (w->inject.factor - 1) * w->last_own_s;
    while (clock_s() < until_s) {
        comm_progress();
        nanosleep(&nap, NULL);
    }
    return clock_s() - from_s;
}

static enum status take_window(struct training *t) {
    struct train_watch *w = t->watch;
    TRY(comm_wait(&w->gathering));
    w->windows++;
    TRY(straggler_window(w->of, w->n, w->own_s));
    if (plan_number(&t->setup.plan, "replace-stragglers"))
        comm_epoch_ask_relief(w->of[mesh_rank_of(&t->run.plan.place)].n_slow >= STRAGGLER_WINDOWS);
    for (int r = 0; r < w->n && comm_is_rank_0(); r++)
        if (w->of[r].told)
            log_info("slow rank %d @%s: %.2f x the median for %d steps", r, w->host[r], w->of[r].ratio,
                     w->of[r].n_slow * STRAGGLER_STEPS);
    return OK;
}

static enum status close_window(struct training *t) {
    struct train_watch *w = t->watch;
    w->mine_s = w->sum_s / w->steps;
    w->steps = 0;
    w->sum_s = 0;
    return comm_all_gather_start(t->run.mesh.group[AXIS_MESH], &w->mine_s, w->own_s, 1, FP64, &w->gathering);
}

enum status train_watch_step(struct training *t, double own_s, double injected_s) {
    struct train_watch *w = t->watch;
    w->last_own_s = fmax(0, own_s - injected_s);
    if (w->n == 0) return OK;
    if (w->gathering.group) {
        TRY(take_window(t));
        w->gathering = (struct comm_request){0};
    }
    w->sum_s += own_s;
    return ++w->steps == STRAGGLER_STEPS ? close_window(t) : OK;
}

enum status train_watch_end(struct training *t) { return comm_wait(&t->watch->gathering); }
