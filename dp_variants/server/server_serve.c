/* A server that does not wait for all workers:
 *
 *   at a push      shard = AdamW(shard, g), version += 1, and the worker has finished one clock more
 *   then           every worker that waits for weights of clock t gets them if  t - slowest <= staleness
 *
 * with `slowest` the least number of clocks that a worker has finished. Asynchronous: no bound. The learning rate
 * depends on the worker's clock, Adam's t on the server's version.
 *
 * --server-order: pushes are applied in the recorded order, early ones wait, and a worker is answered at the recorded
 * version. So a run can be repeated to the bit.
 *
 * What breaks: a record with one server's version only; `slowest` of some workers only; a push applied twice; an answer
 * that changes while it is being sent. */
#include "dp_variants/server/server_state.h"

#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include <inttypes.h>
#include <string.h>

enum status server_await(struct server_loop *x, int w) {
    struct worker *worker = &x->workers[w];
    worker->stage = AWAITED;
    return server_receive(x, x->server, worker->message, w, TAG_PUSH, &worker->request);
}

/* Test the message in flight of a worker: a push arrives, or an answer leaves. */
static enum status look(struct server_loop *x, int w) {
    struct worker *worker = &x->workers[w];
    bool done = false;
    if (worker->stage != AWAITED && worker->stage != ANSWERED) return OK;
    TRY(comm_test(&worker->request, &done));
    if (!done) return OK;
    if (worker->stage == ANSWERED) {
        worker->stage = MET;
        return worker->finished == x->meeting ? OK : server_await(x, w);
    }
    worker->stage = ARRIVED;
    int64_t clock = server_header(x, worker->message, x->server)[0];
    if (clock == worker->finished) return OK;
    return FAIL(E_INTERNAL, "worker %d pushes clock %" PRId64 ", and has finished %" PRId64, w, clock,
                worker->finished);
}

int64_t server_slowest(const struct server_loop *x) {
    int64_t least = INT64_MAX;
    for (int w = 0; w < x->ranks.n_workers; w++) least = min64(least, x->workers[w].finished);
    return least;
}

static bool may_answer(const struct server_loop *x, int w) {
    int64_t clock = x->workers[w].finished;
    if (clock == x->meeting) return server_allows(clock, server_slowest(x), 0);
    if (!x->order.n) return server_allows(clock, server_slowest(x), x->staleness);
    const int64_t *row = server_log_row(&x->order, x->server, server_log_find(&x->order, x->server, w, clock));
    return row[LOG_VERSION + x->server] == x->version;
}

static enum status answer(struct server_loop *x) {
    const struct program *p = &x->run->program;
    size_t bytes = (size_t)server_shard_bytes(p, x->server, x->ranks.n_servers);
    for (int w = 0; w < x->ranks.n_workers; w++) {
        struct worker *worker = &x->workers[w];
        if (worker->stage != OWED || !may_answer(x, w)) continue;
        if (x->weights) memcpy(worker->message, x->weights, bytes);
        else server_copy_shard(p, x->server, x->ranks.n_servers, SERVER_WEIGHTS, INTO_MESSAGE, worker->message);
        server_header(x, worker->message, x->server)[1 + x->server] = x->version;
        worker->stage = ANSWERED;
        TRY(server_send(x, x->server, worker->message, w, TAG_PULL, &worker->request));
    }
    return OK;
}

/* The worker whose push is applied next, by the recorded order, or in turn, so that none is always first; -1: none */
static int next_push(const struct server_loop *x) {
    if (x->order.n && x->version < x->order.n[x->server]) {
        int w = (int)server_log_row(&x->order, x->server, (int)x->version)[LOG_WORKER];
        return x->workers[w].stage == ARRIVED ? w : -1;
    }
    for (int i = 1; i <= x->ranks.n_workers; i++) {
        int w = (x->last + i) % x->ranks.n_workers;
        if (x->workers[w].stage == ARRIVED) return w;
    }
    return -1;
}

static void note(struct server_loop *x, int w) {
    int64_t *row = server_log_add(&x->log, x->server);
    row[LOG_WORKER] = w;
    row[LOG_CLOCK] = x->workers[w].finished;
    row[LOG_MICROSECONDS] = (int64_t)(1e6 * (clock_s() - x->born_s));
    const int64_t *header = server_header(x, x->workers[w].message, x->server);
    memcpy(&row[LOG_VERSION], header + 1, sizeof *row * (size_t)x->ranks.n_servers);
}

static enum status apply(struct server_loop *x, int w) {
    static const double as_it_is = 1;
    const struct plan *p = &x->run->plan;
    struct worker *worker = &x->workers[w];
    struct optimizer_settings a = optim_settings(p, plan_lr(p, worker->finished), x->version + 1, &as_it_is);
    int64_t at = 0;
    for (int i = 0; i < x->run->program.n_params; i++) {
        const struct param *v = &x->run->program.params[i];
        x->elements[i] = param_elements(v);
        x->elements[i].grad = worker->message + at;
        if (x->weights) x->elements[i].weight = x->weights + at;
        at += v->own_n * (int64_t)dtype_size(v->type.dtype);
    }
    TRY(optimizer_update(x->run->program.optimizer, x->run->device, &a, x->elements, x->run->program.n_params));
    if (server_options(p)->record[0]) note(x, w);
    x->version++;
    worker->finished++;
    worker->stage = OWED;
    x->last = w;
    return OK;
}

static enum status apply_all(struct server_loop *x) {
    for (int w = 0; w < x->ranks.n_workers; w++) TRY(look(x, w));
    for (int w; (w = next_push(x)) >= 0;) {
        TRY(apply(x, w));
        TRY(answer(x));
    }
    return OK;
}

/* After a failure, later calls return the same failure and do nothing. */
enum status server_serve(void *self) {
    struct server_loop *x = self;
    if (x->failed == OK) x->failed = apply_all(x);
    return x->failed;
}

/* Wait for one message in flight, that of the worker with the fewest clocks, and serve others meanwhile (comm_serve).
 * One is always in flight, because the slowest worker may always go on. */
static enum status wait_for_one(struct server_loop *x) {
    struct worker *one = NULL;
    for (struct worker *w = x->workers; w < x->workers + x->ranks.n_workers; w++) {
        bool under_way = w->stage == AWAITED || w->stage == ANSWERED;
        if (under_way && (!one || w->finished < one->finished)) one = w;
    }
    if (!one) return FAIL(E_INTERNAL, "server %d waits, and no worker has anything to send", x->server);
    enum stage stage = one->stage;
    one->stage = MET;                                                /* so that server_serve skips this worker */
    TRY(comm_wait(&one->request));
    one->stage = stage;
    return OK;
}

enum status server_serve_clock(struct server_loop *x, int64_t clock) {
    TRY(server_serve(x));
    while (server_slowest(x) <= clock) {
        TRY(wait_for_one(x));
        TRY(server_serve(x));
    }
    return OK;
}
