/* Acts and their costs.
 *
 * The times of the acts are a Poisson process, like failures of machines. So acts fall into every phase of a step, and
 * of the recovery from the previous act. The kind and the victim of act k are random numbers of (seed, k). So the same
 * seed repeats the same acts as long as the job is in the same state.
 *
 *     kill   SIGKILL                               11 of 20 acts; a quarter of them kill two ranks
 *     stop   SIGSTOP, until the agent kills it     5 of 20
 *     slow   SIGSTOP, and SIGCONT soon after       4 of 20
 *     cut    a connection between two hosts        with several hosts, replaces every fifth act
 *
 * A recovery lasts from the first death since the last step to the first step of a newer epoch. It includes the time to
 * detect the death. Goodput is the rest of the time:
 *     1 - sum of recoveries / time since the first step
 * chaos_print compares it with the goodput that planner/failure.h predicts for a job that saves after every step and
 * restarts in the median recovery. */
#include "launch/chaos.h"

#include "lib/base/rng.h"
#include "planner/failure.h"
#include <math.h>
#include <stdlib.h>

enum { OF_TIME, OF_KIND, OF_SLOT, OF_TWO, OF_SECOND, OF_SLOW, OF_CUT, N_DRAWS };

static double draw(int seed, int k, int what) {
    return rng_uniform((uint64_t)seed, rng_stream("chaos"), (uint64_t)k * N_DRAWS + (uint64_t)what);
}

/* A live slot other than `not`; -1: there is none. */
static int pick(const struct chaos_job *job, int not, double u) {
    int n = 0, at;
    for (int s = 0; s < job->n_slots; s++) n += job->alive[s] && s != not;
    at = (int)(u * n);
    for (int s = 0; s < job->n_slots; s++)
        if (job->alive[s] && s != not && at-- == 0) return s;
    return -1;
}

/* Are enough ranks left without the victims of this act? */
static bool survives(const struct chaos_job *job, const struct chaos_act *act) {
    bool alive[MEMBERSHIP_MOST_RANKS];
    for (int s = 0; s < job->n_slots; s++) {
        alive[s] = job->alive[s];
        for (int i = 0; i < act->n; i++) alive[s] &= s != act->slot[i];
    }
    struct membership next = membership_after(&job->now, job->committed, alive, job->n_slots, &job->shape);
    return next.n > 0 && next.n >= job->least;
}

/* Draw two live members on different hosts. */
static bool find_ends(const struct chaos_job *job, int seed, int k, int slot[2]) {
    bool there[MEMBERSHIP_MOST_RANKS];
    struct chaos_job of = *job;
    of.alive = there;
    for (int s = 0; s < job->n_slots; s++) there[s] = job->alive[s] && membership_place(&job->now, s) >= 0;
    slot[0] = pick(&of, -1, draw(seed, k, OF_SLOT));
    for (int s = 0; s < job->n_slots && slot[0] >= 0; s++) there[s] &= job->node[s] != job->node[slot[0]];
    slot[1] = slot[0] < 0 ? -1 : pick(&of, -1, draw(seed, k, OF_SECOND));
    return slot[1] >= 0;
}

struct chaos_act chaos_act(int seed, int k, double mean_s, double hang_s, const struct chaos_job *job) {
    double kind = 20 * draw(seed, k, OF_KIND);
    struct chaos_act act = {.n = 1, .seconds = -mean_s * log1p(-draw(seed, k, OF_TIME)),
                            .slow_s = (hang_s > 0 ? fmin(hang_s, 1) : 1) * 0.5 * draw(seed, k, OF_SLOW)};
    if (job->node && job->committed && draw(seed, k, OF_CUT) < 0.2 && find_ends(job, seed, k, act.slot)) {
        act.kind = CHAOS_CUT;
        act.n = 2;
        return act;
    }
    act.kind = kind < 11 ? CHAOS_KILL : kind < 16 && hang_s > 0 ? CHAOS_STOP : CHAOS_SLOW;
    act.slot[0] = pick(job, -1, draw(seed, k, OF_SLOT));
    act.slot[1] = pick(job, act.slot[0], draw(seed, k, OF_SECOND));
    if (act.kind == CHAOS_KILL && act.slot[1] >= 0 && draw(seed, k, OF_TWO) < 0.25) act.n = 2;
    if (act.n == 2 && !survives(job, &act)) act.n = 1;
    if (act.kind != CHAOS_SLOW && !survives(job, &act)) act.kind = CHAOS_SLOW;
    if (act.slot[0] < 0) act.n = 0;
    return act;
}

/* ---- costs ---- */
void chaos_died(struct chaos_costs *c, double now_s) {
    c->n_deaths++;
    if (c->died_s == 0) c->died_s = now_s;
}

void chaos_look(struct chaos_costs *c, int32_t epoch, int64_t step, double now_s) {
    if (step == 0 || (epoch == c->last_epoch && step == c->last_step)) return;
    if (c->from_s == 0) c->from_s = now_s;
    if (epoch != c->last_epoch) {
        c->n_epochs++;
        if (step <= c->last_step) c->again += c->last_step - step + 1;
        if (c->died_s > 0 && c->n_recovered < CHAOS_MOST_DEATHS) c->recovered_s[c->n_recovered++] = now_s - c->died_s;
        c->died_s = 0;
        c->in_epoch = 0;
    }
    c->in_epoch++;
    c->last_epoch = epoch;
    c->last_step = step;
    c->steps++;
}

static int by_size(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void chaos_print(struct chaos_costs *c, int seed, double now_s, FILE *out) {
    double all_s = now_s - c->from_s, lost_s = 0;
    for (int i = 0; i < c->n_recovered; i++) lost_s += c->recovered_s[i];
    qsort(c->recovered_s, (size_t)c->n_recovered, sizeof *c->recovered_s, by_size);
    fprintf(out, "chaos %d: %d killed, %d stopped, %d slowed, %d cut; ", seed, c->acts[CHAOS_KILL], c->acts[CHAOS_STOP],
            c->acts[CHAOS_SLOW], c->acts[CHAOS_CUT]);
    fprintf(out, "%d new epoch%s with steps; %lld step%s done again\n", c->n_epochs, c->n_epochs == 1 ? "" : "s",
            (long long)c->again, c->again == 1 ? "" : "s");
    if (c->n_recovered == 0 || c->from_s == 0) return;
    double median_s = c->recovered_s[c->n_recovered / 2], step_s = (all_s - lost_s) / (double)c->steps;
    double foretold = failure_goodput(step_s, 0, all_s / c->n_recovered, median_s);
    fprintf(out, "chaos %d: to the next step %.2f s at the median, %.2f s at most; goodput %.1f%%, predicted %.1f%%\n",
            seed, median_s, c->recovered_s[c->n_recovered - 1], 100 * (1 - lost_s / all_s), 100 * foretold);
}
