/* Servers that wait for all, in three events:
 *
 *   GRAD_READY      of a param, the last in the step: its part k is reduced to server k, while backward goes on
 *   BACKWARD_END    waits for all of them
 *                   (norm, clip factor and AdamW are the run's, over what each server owns: lib/run/optim.c)
 *   PARAM_PUBLISH   part k is broadcast from server k
 *
 * What breaks: a worker that keeps old weights of one server. */
#include "server/server_sync.h"

#include "lib/run/run.h"
#include "server/server.h"
#include <stdlib.h>

/* ---- every part of every param, one after the other ---- */
struct part_walk { int param, k; struct server_part part; };

/* Parts in the same order on all ranks; param -1 at first. of: this param's only; -1: of all. */
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

enum status server_sync_cost(const struct plan *plan, const struct program *p, struct bill *bill) {
    for (struct part_walk at = {.param = -1}; next_part(plan, p, -1, &at);) {
        const struct param *w = &p->params[at.param];
        bill_exchange(bill, &p->place, (struct exchange){.axis = param_replicas(w), .op = COMM_REDUCE,
                                                         .root = at.k, .count = at.part.n,
                                                         .dtype = w->grad_type.dtype,
                                                         .when = BEHIND_BACKWARD});
        bill_exchange(bill, &p->place, (struct exchange){.axis = param_replicas(w), .op = COMM_BROADCAST,
                                                         .root = at.k, .count = at.part.n, .dtype = w->type.dtype,
                                                         .when = AT_END});
    }
    return OK;
}

/* ---- events ---- */
struct server_sync { struct comm_request *requests; };               /* [params][servers] */

static struct comm_request *request_of(const struct run *r, struct server_sync *s, const struct part_walk *at) {
    return &s->requests[at->param * server_options(&r->plan)->servers + at->k];
}

static enum status grad_ready(struct run *r, void *self, const struct event *e) {
    const struct param *w = &r->program.params[e->param];
    if (!e->final) return OK;
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, e->param, &at);) {
        char *from = (char *)w->grad + at.part.first * (int64_t)dtype_size(w->grad_type.dtype);
        TRY(comm_reduce_start(r->mesh.group[param_replicas(w)], from, at.part.n, w->grad_type.dtype, COMM_SUM, at.k,
                              request_of(r, self, &at)));
    }
    return OK;
}

static enum status wait_all(struct run *r, struct server_sync *s) {
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, -1, &at);)
        TRY(comm_wait(request_of(r, s, &at)));
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
        char *from = (char *)w->weight + at.part.first * (int64_t)dtype_size(w->type.dtype);
        TRY(comm_broadcast_start(r->mesh.group[param_replicas(w)], from, at.part.n, w->type.dtype, at.k,
                                 request_of(r, self, &at)));
    }
    return wait_all(r, self);
}

enum status server_sync_create(struct run *r, struct server_sync **out) {
    struct server_sync *s = *out = calloc(1, sizeof *s);
    size_t n = (size_t)r->program.n_params * (size_t)server_options(&r->plan)->servers + 1;
    if (s) s->requests = calloc(n, sizeof *s->requests);
    if (!s || !s->requests) return FAIL(E_MEMORY, "no memory for %zu requests of servers", n);
    TRY(run_subscribe(r, EVENT_GRAD_READY, grad_ready, s));
    TRY(run_subscribe(r, EVENT_BACKWARD_END, backward_end, s));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, param_publish, s);
}

void server_sync_destroy(struct server_sync **sync) {
    if (!*sync) return;
    free((*sync)->requests);
    free(*sync);
    *sync = NULL;
}
