/* Servers that wait for all workers, in three events:
 *
 *   GRAD_READY      if final: send part k of the gradient to server k, while backward continues
 *   BACKWARD_END    wait for these messages
 *                   (the run then computes norm, clip factor and AdamW over each server's elements: lib/run/optim.c)
 *   PARAM_PUBLISH   get part k of the weights from server k
 *
 * Shared servers have gradients of their own and need whole weights. So part k is reduced to server k, and its weights
 * are broadcast. Servers on ranks of their own need neither. A worker sends part k to server k, and receives it, in
 * messages whose tag is the param's number; server_alone.c is the other end.
 *
 * What breaks: a worker that keeps old weights of one server. */
#include "dp_variants/server/server_sync.h"

#include "dp_variants/server/server.h"
#include "lib/run/run.h"
#include <stdlib.h>

static bool is_own(const struct plan *plan) { return server_options(plan)->where == SERVER_OWN; }

/* ---- a walk over all parts of all params ---- */
struct part_walk { int param, k; struct server_part part; };

/* Move to the next part, in the same order on all ranks; at->param -1 at first. of: a param; -1: all params. */
static bool next_part(const struct plan *plan, const struct program *p, int of, struct part_walk *at) {
    if (at->param < 0) *at = (struct part_walk){of < 0 ? 0 : of, -1, {0, 0}};
    for (; at->param < p->n_params && (of < 0 || at->param == of); at->param++, at->k = -1) {
        const struct param *w = &p->params[at->param];
        int n = server_ranks_of(plan, param_replicas(w)).n_servers;
        while (param_is_stored(w) && ++at->k < n) {
            at->part = server_part(type_n(&w->type), at->k, n);
            if (at->part.n > 0) return true;
        }
    }
    return false;
}

/* ---- cost ---- */
static void bill_part(const struct plan *plan, const struct program *p, const struct part_walk *at, struct bill *bill) {
    const struct param *w = &p->params[at->param];
    struct exchange x = {.axis = param_replicas(w), .op = is_own(plan) ? COMM_SEND : COMM_REDUCE, .count = at->part.n,
                         .dtype = w->grad_type.dtype, .when = BEHIND_BACKWARD};
    if (!is_own(plan)) x.root = at->k;
    bill_exchange(bill, &p->place, x);
    x.op = COMM_BROADCAST, x.dtype = w->type.dtype, x.when = AT_END;
    if (!is_own(plan)) bill_exchange(bill, &p->place, x);
}

enum status server_sync_cost(const struct plan *plan, const struct program *p, struct bill *bill) {
    if (!plan_has_samples(plan)) return server_alone_cost(plan, p, bill);
    for (struct part_walk at = {.param = -1}; next_part(plan, p, -1, &at);) bill_part(plan, p, &at, bill);
    return OK;
}

/* ---- events ---- */
static struct comm_request *request_of(struct server_sync *s, const struct part_walk *at) {
    return &s->requests[at->param * s->of_param + at->k];
}

static enum status grad_ready(struct run *r, void *self, const struct event *e) {
    const struct param *w = &r->program.params[e->param];
    const struct group *group = r->mesh.group[param_replicas(w)];
    int first = server_ranks_of(&r->plan, param_replicas(w)).first_server;
    if (!e->final) return OK;
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, e->param, &at);) {
        char *from = (char *)w->grad + at.part.first * (int64_t)dtype_size(w->grad_type.dtype);
        struct comm_request *request = request_of(self, &at);
        if (is_own(&r->plan))
            TRY(comm_send_start(group, from, at.part.n, w->grad_type.dtype, first + at.k, e->param, request));
        else TRY(comm_reduce_start(group, from, at.part.n, w->grad_type.dtype, COMM_SUM, at.k, request));
    }
    return OK;
}

static enum status wait_all(struct run *r, struct server_sync *s) {
    for (int i = 0; i < r->program.n_params * s->of_param; i++) TRY(comm_wait(&s->requests[i]));
    return OK;
}

static enum status backward_end(struct run *r, void *self, const struct event *e) {
    (void)e;
    return wait_all(r, self);
}

static enum status param_publish(struct run *r, void *self, const struct event *e) {
    (void)e;
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, -1, &at);) {
        const struct param *w = &r->program.params[at.param];
        const struct group *group = r->mesh.group[param_replicas(w)];
        char *to = (char *)w->weight + at.part.first * (int64_t)dtype_size(w->type.dtype);
        int from = server_ranks_of(&r->plan, param_replicas(w)).first_server + at.k;
        struct comm_request *request = request_of(self, &at);
        if (is_own(&r->plan)) TRY(comm_recv_start(group, to, at.part.n, w->type.dtype, from, at.param, request));
        else TRY(comm_broadcast_start(group, to, at.part.n, w->type.dtype, at.k, request));
    }
    return wait_all(r, self);
}

static enum status listen(struct run *r, struct server_sync *s) {
    TRY(run_subscribe(r, EVENT_GRAD_READY, grad_ready, s));
    TRY(run_subscribe(r, EVENT_BACKWARD_END, backward_end, s));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, param_publish, s);
}

enum status server_sync_create(struct run *r, struct server_sync **out) {
    struct server_sync *s = *out = calloc(1, sizeof *s);
    const struct server_ranks ranks = server_ranks_of(&r->plan, AXIS_DP);
    if (!s) return FAIL(E_MEMORY, "no memory for the requests of servers");
    s->of_param = ranks.n_servers > ranks.n_workers ? ranks.n_servers : ranks.n_workers;
    s->requests = calloc((size_t)r->program.n_params * (size_t)s->of_param + 1, sizeof *s->requests);
    if (!s->requests) return FAIL(E_MEMORY, "no memory for the requests of %d params", r->program.n_params);
    return plan_has_samples(&r->plan) ? listen(r, s) : server_alone_create(r, s);
}

void server_sync_destroy(struct server_sync **sync) {
    if (!*sync) return;
    free((*sync)->requests);
    free(*sync);
    *sync = NULL;
}
