/* Workers and servers that do not wait for all. A worker's clock is in server_work.c, a server's work in
 * server_serve.c, their messages in server_shard.h; this file has the step that consists of both.
 *
 * Staleness 0 is not sync: workers go clock by clock, but each update takes one gradient, and updates weights that are
 * newer than the weights of that gradient.
 *
 * A server that shares a rank with a worker runs inside that rank's comm_progress and waits (comm_serve), between two
 * rows of the worker, so that others wait for at most one row. The server updates a copy of its weights, because the
 * worker's must not change during a step. A server on a rank of its own waits for messages and answers at once; its
 * step is over when every worker has finished that clock.
 *
 * Meeting. Evaluation, checkpoints and the end need the same whole weights everywhere. So after the last clock before
 * one of them (run.flush_at) pulls are answered when all workers have finished that clock: staleness 0, once. Nothing
 * is in flight then, and servers start again from the current weights.
 *
 * Source: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server"; Dean et
 * al. 2012, "Large scale distributed deep networks" (Downpour). */
#include "dp_variants/server/server_loop.h"

#include "dp_variants/server/server_state.h"
#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */
static const struct group *group_with(const struct server_loop *x, int rank) {
    return rank == x->rank ? group_self() : x->run->mesh.group[AXIS_DP];
}
static int peer_of(const struct server_loop *x, int rank) { return rank == x->rank ? 0 : rank; }
static int64_t bytes_of(const struct server_loop *x, int k) {
    return server_message_bytes(&x->run->program, k, x->ranks.n_servers);
}

enum status server_send(const struct server_loop *x, int k, const char *message, int to, int tag,
                        struct comm_request *request) {
    return comm_send_start(group_with(x, to), message, bytes_of(x, k), UINT8, peer_of(x, to), tag, request);
}

enum status server_receive(const struct server_loop *x, int k, char *message, int from, int tag,
                           struct comm_request *request) {
    return comm_recv_start(group_with(x, from), message, bytes_of(x, k), UINT8, peer_of(x, from), tag, request);
}

/* ---- meeting ---- */
static enum status part_from_all(struct server_loop *x) {
    struct run *r = x->run;
    x->first_clock = r->n_step;
    x->version = r->n_update * x->ranks.n_workers;                   /* Adam's t */
    x->meeting = max64(r->flush_at, r->n_step + 1);
    for (int k = 0; k < x->ranks.n_servers; k++) x->versions[k] = x->version;
    if (x->server < 0) return OK;
    if (x->weights)
        server_copy_shard(&r->program, x->server, x->ranks.n_servers, SERVER_WEIGHTS, INTO_MESSAGE, x->weights);
    for (int w = 0; w < x->ranks.n_workers; w++) {
        x->workers[w].finished = x->first_clock;
        TRY(server_await(x, w));
    }
    return OK;
}

static enum status meet(struct server_loop *x) {
    struct run *r = x->run;
    const char *record = server_options(&r->plan)->record;
    if (x->works) TRY(server_pull(x));
    for (int w = 0; x->server >= 0 && w < x->ranks.n_workers; w++) {  /* all workers have pushed, so all get answers */
        x->workers[w].stage = MET;                                   /* so that server_serve skips this worker */
        TRY(comm_wait(&x->workers[w].request));
    }
    r->n_update += x->meeting - x->first_clock;                      /* in clocks, as the learning rate expects */
    if (!record[0]) return OK;
    return server_log_append(&x->log, r->mesh.group[AXIS_MESH], x->ranks.first_server, record);
}

/* ---- a clock ---- */
static enum status work(struct server_loop *x, struct step_record *s) {
    struct run *r = x->run;
    if (r->exec.since_flush > 0) TRY(server_pull(x));
    TRY(server_compute(x, s));
    return server_push(x, r->n_step);
}

/* A rank that only serves has no loss and no norm. */
static enum status only_serve(struct server_loop *x, struct step_record *s) {
    memset(s->on_device, 0, N_SCALARS * sizeof *s->on_device);
    return server_serve_clock(x, x->run->n_step);
}

static enum status clock_of(struct run *r, void *self, struct step_record *s) {
    struct server_loop *x = self;
    if (r->exec.since_flush == 0) TRY(part_from_all(x));
    TRY((x->works ? work : only_serve)(x, s));
    r->exec.since_flush = r->n_step + 1 < x->meeting ? r->exec.since_flush + 1 : 0;
    return r->exec.since_flush == 0 ? meet(x) : x->failed;
}

/* ---- create, destroy ---- */
static bool meets(const void *self, int64_t clock) {
    const struct plan *p = self;
    int64_t every = plan_number(p, "eval-every");
    return (every && clock % every == 0) || (p->save[0] && p->save_every && clock % p->save_every == 0);
}

static enum status read_files(struct server_loop *x) {
    const struct plan *p = &x->run->plan;
    const struct server_options *o = server_options(p);
    int servers = x->ranks.n_servers, workers = x->ranks.n_workers;
    server_log_init(&x->log, servers, workers);
    if (o->order[0]) TRY(server_log_read(&x->order, o->order, servers, workers));
    if (o->order[0]) TRY(server_log_check(&x->order, p->steps, meets, p));
    return o->record[0] && x->rank == 0 ? server_log_try(o->record) : OK;
}

static enum status take_memory(struct server_loop *x) {
    struct program *p = &x->run->program;
    int n = x->ranks.n_servers, me = x->server;
    int64_t end = 0;
    void *base;
    TRY(run_take_comm(x->run, server_room_bytes(p, &x->ranks, x->rank), &base));
    for (int k = 0; k < n && x->works; k++)
        x->shards[k].message = (char *)base + server_take(&end, server_message_bytes(p, k, n));
    if (me < 0) return OK;
    for (int w = 0; w < x->ranks.n_workers; w++)
        x->workers[w] = (struct worker){
            .stage = MET, .message = (char *)base + server_take(&end, server_message_bytes(p, me, n))};
    if (x->works) x->weights = (char *)base + server_take(&end, server_shard_bytes(p, me, n));
    return OK;
}

enum status server_loop_create(struct run *r, struct server_loop **out) {
    struct server_loop *x = *out = calloc(1, sizeof *x);
    if (!x) return FAIL(E_MEMORY, "no memory for a worker's loop");
    const struct server_options *o = server_options(&r->plan);
    int rank = mesh_index(AXIS_DP, &r->program.place);
    *x = (struct server_loop){.run = r, .ranks = server_ranks_of(&r->plan, AXIS_DP), .rank = rank, .born_s = clock_s(),
                              .staleness = o->mode == SERVER_SSP ? o->staleness : INT64_MAX};
    x->server = server_of_rank(&x->ranks, rank);
    x->works = rank < x->ranks.n_workers;
    x->shards = calloc((size_t)x->ranks.n_servers, sizeof *x->shards);
    x->versions = calloc((size_t)x->ranks.n_servers, sizeof *x->versions);
    x->workers = calloc((size_t)x->ranks.n_workers, sizeof *x->workers);
    x->elements = calloc((size_t)r->program.n_params + 1, sizeof *x->elements);
    if (!x->shards || !x->versions || !x->workers || !x->elements)
        return FAIL(E_MEMORY, "no memory for %d servers and %d workers", x->ranks.n_servers, x->ranks.n_workers);
    TRY(take_memory(x));
    TRY(read_files(x));
    r->loop = (struct step_loop){clock_of, x};
    if (x->server >= 0) comm_serve((struct comm_service){x, server_serve});
    return OK;
}

void server_loop_destroy(struct server_loop **loop) {
    struct server_loop *x = *loop;
    if (!x) return;
    if (x->server >= 0) comm_serve((struct comm_service){NULL, NULL});
    server_log_fini(&x->log);
    server_log_fini(&x->order);
    free(x->shards), free(x->versions), free(x->workers), free(x->elements);
    free(x);
    *loop = NULL;
}
