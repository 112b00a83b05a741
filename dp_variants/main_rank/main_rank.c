/* One main rank: what torch.nn.DataParallel does.
 *
 * Idea: one of n replicas, replica 0, is the main one. All others send their gradients to replica 0. It adds them, has
 * the only optimizer, updates the weights, and sends the new weights to all.
 *
 * Formula, as in dp/: g = sum_r g_r, each g_r divided by the tokens of the whole batch. Only rank 0 ever has g.
 *
 * Stored where: weights, gradients and activations on all; Adam's moments and master weights on replica 0 alone. So the
 * others save 8 to 12 bytes per parameter, which does not help, because the model must fit on rank 0.
 *
 * Sent when: BACKWARD_END reduces every gradient to replica 0; PARAM_PUBLISH broadcasts every weight from it. Nothing
 * is hidden behind backward. With G bytes of gradients and W of weights:
 *     rank 0: in (n-1) G, out (n-1) W     others: out G, in W
 * The ledger's algorithm bytes are G + W on every rank, as a ring needs for these two operations. The bytes that each
 * rank sends (ledger_entry.sent) show rank 0's load. The algorithm is `main` unless the user chooses another.
 *
 * What breaks: replicas that keep their old weights; a rank that updates with its own gradient alone.
 *
 * Source: torch/nn/parallel/data_parallel.py (replicate, parallel_apply, gather); Li et al., "PyTorch Distributed",
 * VLDB 2020, section 2.3, on the advantages of DistributedDataParallel. */
#include "dp_variants/main_rank/main_rank.h"

#include "lib/run/run.h"
#include <stdlib.h>
#include <string.h>

static const struct option OPTIONS[] = {
    {"dp-style", OPTION_CHOICE, "all-reduce", 0, 0, "all-reduce|main", "",
     "dp: sum gradients on all replicas alike, or on replica 0 alone, which updates and sends the weights",
     "parallelism", offsetof(struct main_rank_options, style)},
};

static bool main_wanted(const struct plan *plan) { return main_rank_options(plan)->style == DP_STYLE_MAIN; }

static void main_prefer(struct plan *plan) {
    struct comm_options *c = comm_options(plan);
    bool open = !c->algorithm[0] || !strcmp(c->algorithm, "auto");
    if (open && plan->sums == PLAN_SUMS_FAST)
        snprintf(c->algorithm, sizeof c->algorithm, "dp=main,edp=main");
}

static enum status main_check(const struct plan *plan) {
    if (plan->sums == PLAN_SUMS_FAST) return OK;
    return FAIL(E_CONFIG, "dp-style=main adds replicas on one rank, in its order, and sums=fixed adds them as a tree; "
                          "use dp-style=all-reduce, or sums=fast");
}

/* ---- rewrite: replica 0 owns everything ---- */
static enum status main_rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        w->shard_axis = param_replicas(w);
        w->own_first = 0;
        w->own_n = mesh_is_first(param_replicas(w), &plan->place) ? type_n(&w->type) : 0;
    }
    return OK;
}

/* ---- cost ---- */
static enum status main_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    (void)plan;
    for (int i = 0; i < c->program->n_params; i++) {
        const struct param *w = &c->program->params[i];
        const struct mesh_place *place = &c->program->place;
        if (!param_is_stored(w)) continue;
        bill_exchange(bill, place, (struct exchange){.axis = param_replicas(w), .op = COMM_REDUCE,
                                                     .count = type_n(&w->type), .dtype = w->grad_type.dtype,
                                                     .when = AT_END});
        bill_exchange(bill, place, (struct exchange){.axis = param_replicas(w), .op = COMM_BROADCAST,
                                                     .count = type_n(&w->type), .dtype = w->type.dtype,
                                                     .when = AT_END});
    }
    return OK;
}

/* ---- events: self is a request for each param ---- */
static enum status wait_all(struct run *r, struct comm_request *requests) {
    for (int i = 0; i < r->program.n_params; i++) TRY(comm_wait(&requests[i]));
    return OK;
}

static enum status main_backward_end(struct run *r, void *self, const struct event *e) {
    struct comm_request *requests = self;
    (void)e;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (param_is_stored(w))
            TRY(comm_reduce_start(r->mesh.group[param_replicas(w)], w->grad, type_n(&w->type), w->grad_type.dtype,
                                  COMM_SUM, 0, &requests[i]));
    }
    return wait_all(r, requests);
}

static enum status main_param_publish(struct run *r, void *self, const struct event *e) {
    struct comm_request *requests = self;
    (void)e;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (param_is_stored(w))
            TRY(comm_broadcast_start(r->mesh.group[param_replicas(w)], w->weight, type_n(&w->type), w->type.dtype, 0,
                                     &requests[i]));
    }
    return wait_all(r, requests);
}

static enum status main_attach(struct run *r, void **self) {
    struct comm_request *requests = *self = calloc((size_t)r->program.n_params + 1, sizeof *requests);
    if (!requests) return FAIL(E_MEMORY, "no memory for %d requests", r->program.n_params);
    TRY(run_subscribe(r, EVENT_BACKWARD_END, main_backward_end, requests));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, main_param_publish, requests);
}

static void main_detach(struct run *r, void *self) {
    (void)r;
    free(self);
}

const struct technique technique_main_rank = {
    .name = "dp-style=main", .claims = CLAIM_GRAD_SUM | CLAIM_OPTIM_SHARD,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct main_rank_options)}, .wanted = main_wanted,
    .prefer = main_prefer, .check = main_check, .rewrite = main_rewrite, .cost = main_cost, .attach = main_attach,
    .detach = main_detach};
