/* Workers and servers that do not wait for all: a worker's clock, and what a server does meanwhile.
 *
 *   worker, clock t     pull: wait for every server's weights for clock t   (t = 0: they are there)
 *                       forward and backward of its own samples             g, the mean gradient of these
 *                       push: g, the versions that it was computed with     to every server its shard
 *   server              a push: its shard = AdamW(its shard, g), version += 1, the worker has finished one clock more
 *                       then every worker that wants weights for t gets them once  t - slowest <= staleness
 *
 * with `slowest` the least number of clocks that a worker has finished. Asynchronous: no bound. Staleness 0 is not
 * sync: workers go clock by clock, but each update is with one gradient, and those of a clock were computed with older
 * weights than they are applied to.
 *
 * A server is no process of its own: it works in a rank's comm_progress and waits (comm_serve), so between two rows of
 * its worker. Its weights are therefore a copy: what its worker computes with must not change below it.
 *
 * Meeting. Evaluation, checkpoints and the end want the same whole weights everywhere. So the pull after the last clock
 * before one (run.flush_at) is answered when all have finished it: staleness 0, once. Nothing is in flight then, and a
 * server starts from its worker's weights again.
 *
 * Stored where: comm has, of the worker, a message of each server's shard, for the push and then the pull; of a server,
 * its weights, and such a message for each worker. A message is the shard and a header: clock, and a version of each
 * server. Bytes per worker, clock and server k: S_k + 8 (1 + P) each way; nothing between a server and its own worker.
 *
 * --server-order: a server applies pushes in the recorded order, holding back those that come early, and answers a
 * worker at the recorded version. So a run can be had again, to the bit.
 *
 * What breaks: a version noted of one server only; `slowest` of some workers only; a push applied twice; an answer that
 * changes while it is being sent.
 *
 * Source: Ho et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server"; Dean et
 * al. 2012, "Large scale distributed deep networks" (Downpour). */
#include "server/server_loop.h"

#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include "lib/ops/adamw.h"
#include "lib/ops/reduce.h"
#include "lib/run/run.h"
#include "server/server.h"
#include "server/server_log.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it cannot do ---- */
static const char *no_meeting(const struct plan *p) {
    return p->trace[0] ? "trace" : p->save_async ? "save-async" : p->spike_guard > 0 ? "spike-guard" : NULL;
}

enum status server_loop_check(const struct plan *p, const char *mode) {
    char sizes[128];
    if (mesh_n_ranks(&p->mesh) != (double)(p->mesh.dp ? p->mesh.dp : 1) || p->mesh.ep > 1)
        return FAIL(E_CONFIG, "server-mode=%s is for data parallelism alone, and the layout is %s%s; use tp, pp, cp "
                    "and ep 1, or server-mode sync", mode, mesh_sizes_text(&p->mesh, sizes, sizeof sizes),
                    p->mesh.ep > 1 ? " with ep" : "");
    if (p->precision != PRECISION_FP32 && p->precision != PRECISION_FP64)
        return FAIL(E_CONFIG, "server-mode=%s pushes fp32 and fp64, and precision=%s; use one of them, or server-mode "
                    "sync", mode, dtype_name(plan_product_dtype(p)));
    if (p->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "server-mode=%s serves between rows of the cpu, and device=cuda; use device cpu, or "
                    "server-mode sync", mode);
    if (p->clip > 0)
        return FAIL(E_CONFIG, "clip=%g is of the norm of all gradients, and with server-mode=%s they are never "
                    "together; use clip=0, or server-mode sync", p->clip, mode);
    if (no_meeting(p))
        return FAIL(E_CONFIG, "%s has ranks meet at steps, and with server-mode=%s they meet for evaluations and saves "
                    "alone; leave it out, or use server-mode sync", no_meeting(p), mode);
    if (server_options(p)->order[0] && (p->resume[0] || p->time_limit > 0))
        return FAIL(E_CONFIG, "server-order plays a run from its first step to its last, and %s does not; leave one of "
                    "them out", p->resume[0] ? "resume" : "time-limit");
    return OK;
}

/* ---- messages ---- */
static int64_t shard_bytes(const struct program *p, int k, int n_servers) {
    int64_t n = 0;
    for (int i = 0; i < p->n_params; i++) n += server_part(type_n(&p->params[i].type), k, n_servers).n;
    return p->n_params ? n * (int64_t)dtype_size(p->params[0].type.dtype) : 0;
}
/* [ shard | clock | a version of each server ] */
static int64_t header_at(const struct program *p, int k, int n_servers) {
    return round_up(shard_bytes(p, k, n_servers), (int64_t)sizeof(int64_t));
}
static int64_t message_bytes(const struct program *p, int k, int n_servers) {
    return header_at(p, k, n_servers) + (int64_t)sizeof(int64_t) * (1 + n_servers);
}

/* ---- cost ---- */
/* Where the next piece begins, after one of so many bytes at *end. */
static int64_t take(int64_t *end, int64_t bytes) {
    int64_t at = arena_align(*end);
    *end = at + bytes;
    return at;
}
static int64_t comm_bytes(const struct program *p, int me, int n_servers, int n_workers) {
    int64_t end = 0;
    for (int k = 0; k < n_servers; k++) take(&end, message_bytes(p, k, n_servers));
    for (int w = 0; w < n_workers && me < n_servers; w++) take(&end, message_bytes(p, me, n_servers));
    if (me < n_servers) take(&end, shard_bytes(p, me, n_servers));
    return end;
}

enum status server_loop_cost(const struct plan *plan, const struct program *p, struct bill *bill) {
    int n = (int)server_options(plan)->servers, me = mesh_index(AXIS_DP, &p->place);
    int n_workers = mesh_size(AXIS_DP, &p->place);
    bill->technique_comm_bytes += comm_bytes(p, me, n, n_workers);
    for (int k = 0; k < n; k++) {
        int64_t times = k == me ? n_workers - 1 : 1;                 /* a server's answers; a worker's push */
        if (times > 0)
            bill_exchange(bill, &p->place, (struct exchange){.axis = AXIS_DP, .op = COMM_SEND, .dtype = UINT8,
                                                             .count = message_bytes(p, k, n), .times = times,
                                                             .when = IN_ROW});
    }
    return OK;
}

/* ---- state ---- */
enum stage { AWAITED, ARRIVED, OWED, ANSWERED, MET };   /* a push; a push; weights; weights on their way; all done */
struct worker { enum stage stage; int64_t finished; char *message; struct comm_request request; };
struct shard { char *message; int64_t header; struct comm_request request; };   /* of server k, as the worker has it */

struct server_loop {
    struct run *run;
    int n_servers, n_workers, me;
    bool serves;
    int64_t staleness, first_clock, meeting;   /* the clocks at which ranks met, and will meet again */
    /* the worker */
    struct shard *shards;
    int64_t *versions;                   /* of each server, that the weights are of */
    /* the server */
    struct worker *workers;
    char *weights;
    int64_t version;
    int last;                            /* whose push it applied last: the next in turn comes first */
    enum status failed;
    struct server_log log, order;
    struct adamw_elements *elements;     /* [params] */
    double born_s;
};

static int64_t *header(const struct server_loop *x, char *message, int k) {
    return (int64_t *)(message + x->shards[k].header);
}
static const struct group *group_with(const struct server_loop *x, int rank) {
    return rank == x->me ? group_self() : x->run->mesh.group[AXIS_DP];
}
static int peer_of(const struct server_loop *x, int rank) { return rank == x->me ? 0 : rank; }
static int64_t bytes_of(const struct server_loop *x, int k) {
    return message_bytes(&x->run->program, k, x->n_servers);
}
enum { TAG_PUSH = 1, TAG_PULL = 2 };

/* Server k's part of every param, one after the other: into a message, or out of it. */
static void copy_shard(const struct server_loop *x, int k, char *message, bool gradients, bool out) {
    const struct program *p = &x->run->program;
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        struct server_part part = server_part(type_n(&w->type), k, x->n_servers);
        int64_t size = (int64_t)dtype_size(w->type.dtype), bytes = part.n * size;
        char *own = (char *)(gradients ? w->grad : w->weight) + part.first * size;
        memcpy(out ? own : message, out ? message : own, (size_t)bytes);
        message += bytes;
    }
}

/* ---- the server ---- */
static enum status await_push(struct server_loop *x, int w) {
    struct worker *worker = &x->workers[w];
    worker->stage = AWAITED;
    return comm_recv_start(group_with(x, w), worker->message, bytes_of(x, x->me), UINT8, peer_of(x, w), TAG_PUSH,
                           &worker->request);
}

/* What has come, and what has left. */
static enum status look(struct server_loop *x, int w) {
    struct worker *worker = &x->workers[w];
    bool done = false;
    if (worker->stage != AWAITED && worker->stage != ANSWERED) return OK;
    TRY(comm_test(&worker->request, &done));
    if (!done) return OK;
    if (worker->stage == ANSWERED) {
        worker->stage = MET;
        return worker->finished == x->meeting ? OK : await_push(x, w);
    }
    worker->stage = ARRIVED;
    int64_t clock = header(x, worker->message, x->me)[0];
    if (clock == worker->finished) return OK;
    return FAIL(E_INTERNAL, "worker %d pushes clock %" PRId64 ", and has finished %" PRId64, w, clock,
                worker->finished);
}

static int64_t slowest(const struct server_loop *x) {
    int64_t least = INT64_MAX;
    for (int w = 0; w < x->n_workers; w++) least = min64(least, x->workers[w].finished);
    return least;
}

static bool may_answer(const struct server_loop *x, int w) {
    int64_t clock = x->workers[w].finished;
    if (clock == x->meeting) return server_allows(clock, slowest(x), 0);
    if (!x->order.n) return server_allows(clock, slowest(x), x->staleness);
    const int64_t *row = server_log_row(&x->order, x->me, server_log_find(&x->order, x->me, w, clock));
    return row[LOG_VERSION + x->me] == x->version;
}

static enum status answer(struct server_loop *x) {
    for (int w = 0; w < x->n_workers; w++) {
        struct worker *worker = &x->workers[w];
        if (worker->stage != OWED || !may_answer(x, w)) continue;
        memcpy(worker->message, x->weights, (size_t)shard_bytes(&x->run->program, x->me, x->n_servers));
        header(x, worker->message, x->me)[1 + x->me] = x->version;
        worker->stage = ANSWERED;
        TRY(comm_send_start(group_with(x, w), worker->message, bytes_of(x, x->me), UINT8, peer_of(x, w), TAG_PULL,
                            &worker->request));
    }
    return OK;
}

/* In turn, so that no worker is always the first; or as the order says. -1: none. */
static int next_push(const struct server_loop *x) {
    if (x->order.n && x->version < x->order.n[x->me]) {
        int w = (int)server_log_row(&x->order, x->me, (int)x->version)[LOG_WORKER];
        return x->workers[w].stage == ARRIVED ? w : -1;
    }
    for (int i = 1; i <= x->n_workers; i++)
        if (x->workers[(x->last + i) % x->n_workers].stage == ARRIVED) return (x->last + i) % x->n_workers;
    return -1;
}

static void note(struct server_loop *x, int w) {
    int64_t *row = server_log_add(&x->log, x->me);
    row[LOG_WORKER] = w;
    row[LOG_CLOCK] = x->workers[w].finished;
    row[LOG_MICROSECONDS] = (int64_t)(1e6 * (clock_s() - x->born_s));
    memcpy(&row[LOG_VERSION], header(x, x->workers[w].message, x->me) + 1, sizeof *row * (size_t)x->n_servers);
}

static enum status apply(struct server_loop *x, int w) {
    static const double as_it_is = 1;
    const struct plan *p = &x->run->plan;
    struct worker *worker = &x->workers[w];
    struct adamw a = {.lr = plan_lr(p, worker->finished), .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps,
                      .weight_decay = p->weight_decay, .grad_multiplier = &as_it_is, .step = x->version + 1};
    char *weight = x->weights, *grad = worker->message;
    for (int i = 0; i < x->run->program.n_params; i++) {
        const struct param *v = &x->run->program.params[i];
        x->elements[i] = (struct adamw_elements){v->own_n, weight, v->type.dtype, grad, v->type.dtype, v->moment1,
                                                 v->moment2, NULL, v->decay};
        weight += v->own_n * (int64_t)dtype_size(v->type.dtype), grad += v->own_n * (int64_t)dtype_size(v->type.dtype);
    }
    TRY(adamw_update(x->run->device, &a, x->elements, x->run->program.n_params));
    if (server_options(p)->record[0]) note(x, w);
    x->version++;
    worker->finished++;
    worker->stage = OWED;
    x->last = w;
    return OK;
}

static enum status serve(struct server_loop *x) {
    for (int w = 0; w < x->n_workers; w++) TRY(look(x, w));
    for (int w; (w = next_push(x)) >= 0;) {
        TRY(apply(x, w));
        TRY(answer(x));
    }
    return OK;
}

static enum status serve_meanwhile(void *self) {
    struct server_loop *x = self;
    if (x->failed == OK) x->failed = serve(x);
    return x->failed;
}

/* ---- the worker ---- */
static enum status push(struct server_loop *x, int64_t clock) {
    for (int k = 0; k < x->n_servers; k++) {
        struct shard *s = &x->shards[k];
        copy_shard(x, k, s->message, true, false);
        header(x, s->message, k)[0] = clock;
        memcpy(header(x, s->message, k) + 1, x->versions, sizeof *x->versions * (size_t)x->n_servers);
        TRY(comm_send_start(group_with(x, k), s->message, bytes_of(x, k), UINT8, peer_of(x, k), TAG_PUSH,
                            &s->request));
    }
    return OK;
}

static enum status pull(struct server_loop *x) {
    for (int k = 0; k < x->n_servers; k++) {
        struct shard *s = &x->shards[k];
        TRY(comm_wait(&s->request));                                 /* its push has left */
        TRY(comm_recv_start(group_with(x, k), s->message, bytes_of(x, k), UINT8, peer_of(x, k), TAG_PULL,
                            &s->request));
    }
    for (int k = 0; k < x->n_servers; k++) {
        TRY(comm_wait(&x->shards[k].request));
        copy_shard(x, k, x->shards[k].message, false, true);
        x->versions[k] = header(x, x->shards[k].message, k)[1 + k];
    }
    return OK;
}

/* ---- meeting ---- */
static enum status part_from_all(struct server_loop *x) {
    struct run *r = x->run;
    x->first_clock = r->n_step;
    x->version = r->n_update * x->n_workers;                         /* Adam's t */
    x->meeting = max64(r->flush_at, r->n_step + 1);
    for (int k = 0; k < x->n_servers; k++) x->versions[k] = x->version;
    if (!x->serves) return OK;
    copy_shard(x, x->me, x->weights, false, false);
    for (int w = 0; w < x->n_workers; w++) {
        x->workers[w].finished = x->first_clock;
        TRY(await_push(x, w));
    }
    return OK;
}

static enum status meet(struct server_loop *x) {
    struct run *r = x->run;
    const char *record = server_options(&r->plan)->record;
    TRY(pull(x));
    for (int w = 0; w < x->n_workers && x->serves; w++) {            /* one answer has come: all are on their way */
        x->workers[w].stage = MET;                                   /* serve looks no more at what is waited for */
        TRY(comm_wait(&x->workers[w].request));
    }
    r->n_update += x->meeting - x->first_clock;                      /* clocks: what the rate follows elsewhere */
    return record[0] ? server_log_append(&x->log, r->mesh.group[AXIS_MESH], record) : OK;
}

/* ---- a clock ---- */
/* Of the worker's own samples: its mean loss, and the norm of its gradient. */
static enum status own_numbers(struct server_loop *x, struct step_record *s) {
    struct run *r = x->run;
    double *at = s->on_device;
    struct reduce_buffer *grads = malloc(((size_t)r->program.n_params + 1) * sizeof *grads);
    if (!grads) return FAIL(E_MEMORY, "no memory for a table of %d gradients", r->program.n_params);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        grads[i] = (struct reduce_buffer){w->grad, w->grad_type.dtype, type_n(&w->type)};
    }
    enum status status =
        reduce_sum_of_squares(r->device, grads, r->program.n_params, &at[SCALAR_SQUARES], r->reduce_work);
    free(grads);
    TRY(status);
    at[SCALAR_NORM] = sqrt(at[SCALAR_SQUARES]);
    s->lr = plan_lr(&r->plan, r->n_step);
    if (isfinite(at[SCALAR_LOSS]) && isfinite(at[SCALAR_NORM])) return OK;
    return FAIL(E_NUMERIC, "step %" PRId64 " of this worker has loss %g and gradient norm %g, which it does not push; "
                "lower lr=%g, raise warmup=%" PRId64 ", or look at the data", r->n_step + 1, at[SCALAR_LOSS],
                at[SCALAR_NORM], r->plan.lr, r->plan.warmup);
}

static enum status clock_of(struct run *r, void *self, struct step_record *s) {
    struct server_loop *x = self;
    double of_all = r->exec.loss_weight;
    TRY(r->exec.since_flush == 0 ? part_from_all(x) : pull(x));
    r->exec.loss_weight = of_all * x->n_workers;                     /* the mean over this worker's samples */
    enum status status = exec_run(&r->exec, &r->schedule, true);
    r->exec.loss_weight = of_all;
    TRY(status);
    TRY(own_numbers(x, s));
    TRY(push(x, r->n_step));
    r->exec.since_flush = r->n_step + 1 < x->meeting ? r->exec.since_flush + 1 : 0;
    return r->exec.since_flush == 0 ? meet(x) : x->failed;
}

/* ---- create, destroy ---- */
static bool meets(const void *self, int64_t clock) {
    const struct plan *p = self;
    return (p->eval_every && clock % p->eval_every == 0) || (p->save[0] && p->save_every && clock % p->save_every == 0);
}

static enum status read_files(struct server_loop *x) {
    const struct plan *p = &x->run->plan;
    const struct server_options *o = server_options(p);
    server_log_init(&x->log, x->n_servers, x->n_workers);
    if (o->order[0]) TRY(server_log_read(&x->order, o->order, x->n_servers, x->n_workers));
    if (o->order[0]) TRY(server_log_check(&x->order, p->steps, meets, p));
    return o->record[0] && x->me == 0 ? server_log_begin(&x->log, o->record) : OK;
}

static enum status take_memory(struct server_loop *x) {
    struct program *p = &x->run->program;
    int64_t end = 0;
    void *base;
    TRY(run_take_comm(x->run, comm_bytes(p, x->me, x->n_servers, x->n_workers), &base));
    for (int k = 0; k < x->n_servers; k++)
        x->shards[k] = (struct shard){.message = (char *)base + take(&end, message_bytes(p, k, x->n_servers)),
                                      .header = header_at(p, k, x->n_servers)};
    for (int w = 0; w < x->n_workers && x->serves; w++)
        x->workers[w] = (struct worker){
            .stage = MET, .message = (char *)base + take(&end, message_bytes(p, x->me, x->n_servers))};
    if (x->serves) x->weights = (char *)base + take(&end, shard_bytes(p, x->me, x->n_servers));
    return OK;
}

enum status server_loop_create(struct run *r, struct server_loop **out) {
    struct server_loop *x = *out = calloc(1, sizeof *x);
    if (!x) return FAIL(E_MEMORY, "no memory for a worker's loop");
    const struct server_options *o = server_options(&r->plan);
    const struct mesh_place *place = &r->program.place;
    *x = (struct server_loop){.run = r, .n_servers = (int)o->servers, .n_workers = mesh_size(AXIS_DP, place),
                              .me = mesh_index(AXIS_DP, place), .born_s = clock_s(),
                              .staleness = o->mode == SERVER_SSP ? o->staleness : INT64_MAX};
    x->serves = x->me < x->n_servers;
    x->shards = calloc((size_t)x->n_servers, sizeof *x->shards);
    x->versions = calloc((size_t)x->n_servers, sizeof *x->versions);
    x->workers = calloc((size_t)x->n_workers, sizeof *x->workers);
    x->elements = calloc((size_t)r->program.n_params + 1, sizeof *x->elements);
    if (!x->shards || !x->versions || !x->workers || !x->elements)
        return FAIL(E_MEMORY, "no memory for %d servers and %d workers", x->n_servers, x->n_workers);
    TRY(take_memory(x));
    TRY(read_files(x));
    r->loop = (struct step_loop){clock_of, x};
    if (x->serves) comm_serve((struct comm_service){x, serve_meanwhile});
    return OK;
}

void server_loop_destroy(struct server_loop **loop) {
    struct server_loop *x = *loop;
    if (!x) return;
    if (x->serves) comm_serve((struct comm_service){NULL, NULL});
    server_log_fini(&x->log);
    server_log_fini(&x->order);
    free(x->shards), free(x->versions), free(x->workers), free(x->elements);
    free(x);
    *loop = NULL;
}
