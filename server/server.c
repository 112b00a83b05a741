/* Parameter servers.
 *
 * Idea: of n replicas the first P are servers as well. Each keeps the optimizer of one P-th of every param. A worker,
 * which every replica is, pushes each server its shard of the gradient, and pulls the shards of the weights. Where
 * every server waits for all workers (sync), this is data parallelism by other messages. Where it does not (ssp,
 * async), nobody waits for a slow worker, and gradients are stale.
 *
 * Formula, sync: g = sum_r g_r, on server k for its elements; the same update as in dp/. ssp, async: an update with one
 * worker's mean gradient at a time, see server_loop.c.
 *
 * Stored where: weights, gradients and activations on all; moments and masters of element i on server floor(i P / n).
 *
 * Sent when (sync): the last GRAD_READY of a param reduces part k of it to server k, while backward goes on;
 * BACKWARD_END waits. The norm is a sum over the mesh of what servers own, between push and update. PARAM_PUBLISH
 * broadcasts part k from server k. With S bytes of gradients and as many of weights, n workers, per step:
 *     worker: out S, in S      server: in (n-1) S/P, out (n-1) S/P, beside what it sends as a worker
 * so the busiest link carries S (n-1)/P + S (P-1)/P, and with P = n what an all-reduce does: 2 S (n-1)/n. One server is
 * main_rank/.
 *
 * What breaks: parts with gaps or overlaps; a norm of one server alone; a worker that keeps old weights of one server.
 *
 * Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server"; Jiang et al. 2020, "A
 * unified architecture for accelerating distributed DNN training" (BytePS). */
#include "server/server.h"

#include "lib/run/run.h"
#include "server/server_loop.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct server_options, field)
static const struct option OPTIONS[] = {
    {"servers", OPTION_INT, "0", 0, 1024, NULL, "",
     "dp: the first N replicas are parameter servers, to whom all push gradients, and pull weights; 0: none",
     "parallelism", AT(servers)},
    {"server-mode", OPTION_CHOICE, "sync", 0, 0, "sync|ssp|async", "",
     "servers: update with the gradients of all workers; or with each as it comes, with workers at most --staleness "
     "clocks apart; or with no such bound", "parallelism", AT(mode)},
    {"staleness", OPTION_INT, "0", 0, 1 << 20, NULL, "clocks",
     "server-mode ssp: how many clocks a worker may be ahead of the slowest", "parallelism", AT(staleness)},
    {"server-record", OPTION_TEXT, "", 0, 0, NULL, "file",
     "server-mode ssp, async: which gradients each server applied, in which order, and the versions that they were of",
     "output", AT(record)},
    {"server-order", OPTION_TEXT, "", 0, 0, NULL, "file",
     "server-mode ssp, async: apply gradients and answer workers in the order of such a record", "parallelism",
     AT(order)},
};

struct server_part server_part(int64_t n, int k, int n_servers) {
    int64_t first = n * k / n_servers;
    return (struct server_part){first, n * (k + 1) / n_servers - first};
}

static bool server_wanted(const struct plan *plan) {
    const struct server_options *o = server_options(plan);
    return o->servers > 0 || o->mode != SERVER_SYNC || o->staleness > 0 || o->record[0] || o->order[0];
}

static bool server_asynchronous(const struct plan *plan) {
    return server_wanted(plan) && server_options(plan)->mode != SERVER_SYNC;
}

/* As messages to and from each server, unless the user says otherwise. */
static void server_prefer(struct plan *plan) {
    bool open = !plan->comm_algorithm[0] || !strcmp(plan->comm_algorithm, "auto");
    if (open && plan->sums == PLAN_SUMS_FAST && !server_asynchronous(plan))
        snprintf(plan->comm_algorithm, sizeof plan->comm_algorithm, "dp=main,edp=main");
}

/* ---- what it cannot do ---- */
static const char *mode_name(const struct plan *plan) {
    static const char *const names[] = {"sync", "ssp", "async"};
    return names[server_options(plan)->mode];
}

static enum status check_options(const struct plan *plan) {
    const struct server_options *o = server_options(plan);
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    if (o->servers == 0)
        return FAIL(E_CONFIG, "server-mode, staleness, server-record and server-order belong to servers, and "
                              "servers=0; use --servers 1 or more, or leave them out");
    if (o->servers > mesh_size(AXIS_DP, &first))
        return FAIL(E_CONFIG, "servers=%" PRId64 " are replicas too, and there are %d; use at most as many, or more dp",
                    o->servers, mesh_size(AXIS_DP, &first));
    if (o->staleness > 0 && o->mode != SERVER_SSP)
        return FAIL(E_CONFIG, "staleness=%" PRId64 " is for server-mode=ssp, not %s; use ssp, or leave staleness out",
                    o->staleness, mode_name(plan));
    if ((o->record[0] || o->order[0]) && o->mode == SERVER_SYNC)
        return FAIL(E_CONFIG, "server-record and server-order are about gradients that are applied one by one, and "
                              "server-mode=sync adds them up; use ssp or async, or leave them out");
    if (plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "servers=%" PRId64 " add gradients in an order of their own, and sums=fixed as a tree; "
                              "leave servers out, or use sums=fast", o->servers);
    return OK;
}

static enum status server_check(const struct plan *plan) {
    TRY(check_options(plan));
    return server_asynchronous(plan) ? server_loop_check(plan, mode_name(plan)) : OK;
}

/* ---- rewrite: who owns what ---- */
/* The replicas of an expert are fewer than others, and there may be fewer than servers. */
static int n_servers_of(const struct plan *plan, const struct param *w) {
    int n = mesh_size(param_replicas(w), &plan->place);
    return server_options(plan)->servers < n ? (int)server_options(plan)->servers : n;
}

static enum status server_rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        int k = mesh_index(param_replicas(w), &plan->place), n = n_servers_of(plan, w);
        struct server_part own = k < n ? server_part(type_n(&w->type), k, n) : (struct server_part){0, 0};
        w->shard_axis = param_replicas(w);
        w->own_first = own.first;
        w->own_n = own.n;
    }
    return OK;
}

/* ---- sync: every part of every param, one after the other ---- */
struct part_walk { int param, k; struct server_part part; };

/* Parts in the same order on all ranks; param -1 at first. of: this param's only; -1: of all. */
static bool next_part(const struct plan *plan, const struct program *p, int of, struct part_walk *at) {
    if (at->param < 0) *at = (struct part_walk){of < 0 ? 0 : of, -1, {0, 0}};
    for (; at->param < p->n_params && (of < 0 || at->param == of); at->param++, at->k = -1) {
        const struct param *w = &p->params[at->param];
        int n = n_servers_of(plan, w);
        while (param_is_stored(w) && ++at->k < n) {
            at->part = server_part(type_n(&w->type), at->k, n);
            if (at->part.n > 0) return true;
        }
    }
    return false;
}

static void bill_sums(const struct plan *plan, const struct program *p, struct bill *bill) {
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
}

static enum status server_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    if (server_asynchronous(plan)) return server_loop_cost(plan, c->program, bill);
    bill_sums(plan, c->program, bill);
    return OK;
}

/* ---- events of sync ---- */
struct server { struct comm_request *requests; struct server_loop *loop; };   /* requests: [params][servers]; or loop */

static struct comm_request *request_of(const struct run *r, struct server *s, const struct part_walk *at) {
    return &s->requests[at->param * server_options(&r->plan)->servers + at->k];
}

static enum status server_grad_ready(struct run *r, void *self, const struct event *e) {
    const struct param *w = &r->program.params[e->param];
    if (!e->final) return OK;
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, e->param, &at);) {
        char *from = (char *)w->grad + at.part.first * (int64_t)dtype_size(w->grad_type.dtype);
        TRY(comm_reduce_start(r->mesh.group[param_replicas(w)], from, at.part.n, w->grad_type.dtype, COMM_SUM, at.k,
                              request_of(r, self, &at)));
    }
    return OK;
}

static enum status wait_all(struct run *r, struct server *s) {
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, -1, &at);)
        TRY(comm_wait(request_of(r, s, &at)));
    return OK;
}

static enum status server_backward_end(struct run *r, void *self, const struct event *e) {
    (void)e;
    return wait_all(r, self);
}

static enum status server_param_publish(struct run *r, void *self, const struct event *e) {
    (void)e;
    for (struct part_walk at = {.param = -1}; next_part(&r->plan, &r->program, -1, &at);) {
        const struct param *w = &r->program.params[at.param];
        char *from = (char *)w->weight + at.part.first * (int64_t)dtype_size(w->type.dtype);
        TRY(comm_broadcast_start(r->mesh.group[param_replicas(w)], from, at.part.n, w->type.dtype, at.k,
                                 request_of(r, self, &at)));
    }
    return wait_all(r, self);
}

static enum status server_attach(struct run *r, void **self) {
    struct server *s = *self = calloc(1, sizeof *s);
    size_t n = (size_t)r->program.n_params * (size_t)server_options(&r->plan)->servers + 1;
    if (!s) return FAIL(E_MEMORY, "no memory for the tables of servers");
    if (server_asynchronous(&r->plan)) return server_loop_create(r, &s->loop);
    s->requests = calloc(n, sizeof *s->requests);
    if (!s->requests) return FAIL(E_MEMORY, "no memory for %zu requests", n);
    TRY(run_subscribe(r, EVENT_GRAD_READY, server_grad_ready, s));
    TRY(run_subscribe(r, EVENT_BACKWARD_END, server_backward_end, s));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, server_param_publish, s);
}

static void server_detach(struct run *r, void *self) {
    struct server *s = self;
    (void)r;
    server_loop_destroy(&s->loop);
    free(s->requests);
    free(s);
}

const struct technique technique_server = {
    .name = "servers", .claims = CLAIM_GRAD_SUM | CLAIM_OPTIM_SHARD,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct server_options)}, .wanted = server_wanted,
    .asynchronous = server_asynchronous, .prefer = server_prefer, .check = server_check, .rewrite = server_rewrite,
    .cost = server_cost, .attach = server_attach, .detach = server_detach};
