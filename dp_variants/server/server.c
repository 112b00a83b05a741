/* Parameter servers.
 *
 * Idea: P of the replicas are servers. Each keeps the optimizer of one P-th of every param. A worker pushes each server
 * its shard of the gradient, and pulls the shards of the weights. If every server waits for all workers (sync), this is
 * data parallelism by other messages. If not (ssp, async), no worker waits for a slow one, and gradients are stale.
 * Shared servers are on the first P of n ranks, and all n ranks are workers. Servers on ranks of their own are on the
 * last P of n ranks, and the other W = n - P ranks are workers.
 *
 * Formula, sync: g = sum over workers of g_w, on server k for its elements; the same update as in dp/. ssp, async: an
 * update with one worker's mean gradient at a time, see server_serve.c.
 *
 * Stored where: weights, gradients and activations on all workers; moments and masters of a param's k-th part on
 * server k. A server on a rank of its own has that part of the weights, too, and nothing else of the model.
 *
 * Sent when: see server_sync.c, server_loop.c. With S bytes of gradients and as many of weights, per step:
 *     shared   worker: out S, in S, without the part of its own rank    server: in, out (n-1) S/P more
 *     own      worker: out S, in S                                      server: in, out W S/P
 * so with P = n shared servers the busiest link carries as much as in an all-reduce: 2 S (n-1)/n. P = 1 is main_rank.
 *
 * What breaks: parts with gaps or overlaps; a norm of one server alone; a worker that keeps old weights of one server.
 *
 * Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server"; Jiang et al. 2020, "A
 * unified architecture for accelerating distributed DNN training" (BytePS). */
#include "dp_variants/server/server.h"

#include "dp_variants/server/server_loop.h"
#include "dp_variants/server/server_shard.h"
#include "dp_variants/server/server_sync.h"
#include "lib/run/run.h"
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct server_options, field)
static const struct option OPTIONS[] = {
    {"servers", OPTION_INT, "0", 0, 1024, NULL, "",
     "dp: N of the replicas are parameter servers: workers push gradients to them and pull weights; 0: none",
     "parallelism", AT(servers)},
    {"server-ranks", OPTION_CHOICE, "shared", 0, 0, "shared|own", "",
     "servers: on ranks that work, too, the first of dp; or on ranks of their own, the last, which have no samples",
     "parallelism", AT(where)},
    {"server-mode", OPTION_CHOICE, "sync", 0, 0, "sync|ssp|async", "",
     "servers: update with the gradients of all workers; or with each as it comes, with workers at most --staleness "
     "clocks apart; or with no such bound", "parallelism", AT(mode)},
    {"staleness", OPTION_INT, "0", 0, 1 << 20, NULL, "clocks",
     "server-mode ssp: how many clocks a worker may be ahead of the slowest", "parallelism", AT(staleness)},
    {"server-record", OPTION_TEXT, "", 0, 0, NULL, "new file",
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

struct server_ranks server_ranks_of(const struct plan *plan, enum mesh_axis replicas) {
    int n = mesh_size(replicas, &plan->place), servers = (int)server_options(plan)->servers;
    if (server_options(plan)->where == SERVER_OWN) return (struct server_ranks){servers, n - servers, n - servers};
    return (struct server_ranks){servers < n ? servers : n, n, 0};
}

static bool server_wanted(const struct plan *plan) {
    const struct server_options *o = server_options(plan);
    return o->servers > 0 || o->where != SERVER_SHARED || o->mode != SERVER_SYNC || o->staleness > 0 || o->record[0] ||
           o->order[0];
}

static int64_t server_serving(const struct plan *plan) {
    return server_options(plan)->where == SERVER_OWN ? server_options(plan)->servers : 0;
}

static const char *server_asynchronous(const struct plan *plan) {
    return server_wanted(plan) && server_options(plan)->mode != SERVER_SYNC ? "server-mode sync" : NULL;
}

/* Unless the user chooses an algorithm, sums are messages to and from each server. */
static void server_prefer(struct plan *plan) {
    struct comm_options *c = comm_options(plan);
    bool open = !c->algorithm[0] || !strcmp(c->algorithm, "auto");
    if (open && plan->sums == PLAN_SUMS_FAST && !server_asynchronous(plan))
        snprintf(c->algorithm, sizeof c->algorithm, "dp=main,edp=main");
}

/* ---- rewrite: owners ---- */
/* A server on a rank of its own keeps only its part of weights and gradients; if asynchronous, no gradients. */
static void keep_own_alone(const struct plan *plan, struct param *w) {
    w->shard_n = w->own_n;
    w->weight_residence = RESIDENT_OWN;
    w->grad_residence = server_asynchronous(plan) ? RESIDENT_NONE : RESIDENT_OWN;
}

static enum status server_rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        const struct server_ranks ranks = server_ranks_of(plan, param_replicas(w));
        int k = server_of_rank(&ranks, mesh_index(param_replicas(w), &plan->place));
        struct server_part own = {0, 0};
        if (k >= 0) own = server_part(type_n(&w->type), k, ranks.n_servers);
        w->shard_axis = param_replicas(w);
        w->own_first = own.first;
        w->own_n = own.n;
        if (!plan_has_samples(plan)) keep_own_alone(plan, w);
    }
    return OK;
}

/* ---- cost and events: synchronous or asynchronous ---- */
static enum status server_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    return (server_asynchronous(plan) ? server_loop_cost : server_sync_cost)(plan, c->program, bill);
}

struct server { struct server_loop *loop; struct server_sync *sync; };   /* one of them is NULL */

static enum status server_attach(struct run *r, void **self) {
    struct server *s = *self = calloc(1, sizeof *s);
    if (!s) return FAIL(E_MEMORY, "no memory for the tables of servers");
    return server_asynchronous(&r->plan) ? server_loop_create(r, &s->loop) : server_sync_create(r, &s->sync);
}

static void server_detach(struct run *r, void *self) {
    struct server *s = self;
    (void)r;
    server_loop_destroy(&s->loop);
    server_sync_destroy(&s->sync);
    free(s);
}

const struct technique technique_server = {
    .name = "servers", .claims = CLAIM_GRAD_SUM | CLAIM_OPTIM_SHARD,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct server_options)}, .wanted = server_wanted,
    .asynchronous = server_asynchronous, .serving = server_serving, .prefer = server_prefer, .settle = server_settle,
    .check = server_check, .rewrite = server_rewrite,
    .cost = server_cost, .attach = server_attach, .detach = server_detach};
