/* ranks: 4
 *
 * Minimal parameter server: rank 0 has one number w, the others are workers. Worker r does CLOCKS steps on its own
 * part of f(w) = sum_r (w - r)^2 / 2: pull w, g = w - r, push g. The server applies w = w - rate g at once.
 *
 *     a worker gets weights for clock t if  t - slowest <= STALENESS    slowest: the fewest clocks of any worker
 *
 * The last worker is slow. The server notes every push in order: its worker, and the version of w of its gradient. Then
 * the server repeats all updates from these notes, and must get the same bits. dp_variants/server/server_serve.c does
 * this for the shards of a GPT. Source: Ho et al. 2013. */
#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include <sched.h>
#include <stdio.h>

enum { CLOCKS = 8, STALENESS = 2, MAX_WORKERS = 7, PUSH = 1, PULL = 2 };
static const double RATE = 0.125, SLOW_S = 0.02;
struct weights { double w; int64_t version; };     /* the message of a pull */
struct gradient { double g; int64_t version; };    /* the message of a push; version: of the weights of g */
struct note { int worker; int64_t version; };      /* an applied push */

static enum status send(const void *x, int64_t bytes, int to, int tag) {
    struct comm_request request = {0};
    TRY(comm_send_start(group_world(), x, bytes, UINT8, to, tag, &request));
    return comm_wait(&request);
}
static enum status receive(void *x, int64_t bytes, int from, int tag) {
    struct comm_request request = {0};
    TRY(comm_recv_start(group_world(), x, bytes, UINT8, from, tag, &request));
    return comm_wait(&request);
}

static double gradient_of(double w, int worker) { return w - worker; }

static enum status work(int me, bool slow) {
    for (int t = 0; t < CLOCKS; t++) {
        struct weights got;
        TRY(receive(&got, sizeof got, 0, PULL));
        for (double until = clock_s() + SLOW_S; slow && clock_s() < until;) sched_yield();
        struct gradient mine = {gradient_of(got.w, me), got.version};
        TRY(send(&mine, sizeof mine, 0, PUSH));
    }
    return OK;
}

/* ---- the server, of workers 1 .. n ---- */
struct server {
    int n, finished[MAX_WORKERS + 1], given[MAX_WORKERS + 1];        /* clocks; the clock of the last weights sent */
    struct gradient in[MAX_WORKERS + 1];
    struct comm_request request[MAX_WORKERS + 1];
    struct weights now;
    struct note notes[MAX_WORKERS * CLOCKS];
    int most_ahead;
};

static int slowest(const struct server *s) {
    int least = CLOCKS;
    for (int r = 1; r <= s->n; r++)
        if (s->finished[r] < least) least = s->finished[r];
    return least;
}

static enum status answer(struct server *s) {      /* send weights to workers that may have them; await their pushes */
    for (int r = 1; r <= s->n; r++) {
        int ahead = s->finished[r] - slowest(s);
        if (s->given[r] == s->finished[r] || s->finished[r] == CLOCKS || ahead > STALENESS) continue;
        if (ahead > s->most_ahead) s->most_ahead = ahead;
        s->given[r] = s->finished[r];
        TRY(send(&s->now, sizeof s->now, r, PULL));
        TRY(comm_recv_start(group_world(), &s->in[r], sizeof s->in[r], UINT8, r, PUSH, &s->request[r]));
    }
    return OK;
}

static enum status serve(struct server *s) {
    for (int r = 1; r <= s->n; r++) s->given[r] = -1;
    while (s->now.version < s->n * CLOCKS) {
        TRY(answer(s));
        for (int r = 1; r <= s->n; r++) {
            bool done = false;
            TRY(comm_test(&s->request[r], &done));
            if (!done || s->given[r] != s->finished[r] || s->finished[r] == CLOCKS) continue;
            s->notes[s->now.version++] = (struct note){r, s->in[r].version};
            s->now.w -= RATE * s->in[r].g;
            s->finished[r]++;
        }
        comm_progress();
        sched_yield();
    }
    return OK;
}

static double again(const struct server *s) {                       /* from the notes alone */
    double past[MAX_WORKERS * CLOCKS + 1] = {0};                     /* past[v]: w at version v */
    for (int v = 0; v < s->n * CLOCKS; v++)
        past[v + 1] = past[v] - RATE * gradient_of(past[s->notes[v].version], s->notes[v].worker);
    return past[s->n * CLOCKS];
}

static enum status run(void) {
    int n = comm_world_size() - 1;
    struct server s = {.n = n};
    if (n < 1 || n > MAX_WORKERS) return FAIL(E_CONFIG, "%d ranks; use 2 to %d", n + 1, MAX_WORKERS + 1);
    if (comm_world_rank() > 0) return work(comm_world_rank(), comm_world_rank() == n);
    TRY(serve(&s));
    printf("%d workers, %d updates; at most %d clocks ahead, %d allowed; w = %.6f\n", n, n * CLOCKS, s.most_ahead,
           STALENESS, s.now.w);
    if (again(&s) == s.now.w && s.most_ahead <= STALENESS) return OK;
    return FAIL(E_INTERNAL, "from the notes it is %.17g, and was %.17g", again(&s), s.now.w);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), run()); else status_report();
    if (status == OK && comm_is_rank_0()) printf("the server's notes give the same bits\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
