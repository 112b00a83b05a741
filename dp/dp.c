/* Data parallelism.
 *
 * Idea: dp replicas of the model, each with its own samples of the batch. The gradient of the whole batch's loss is the
 * sum of the replicas' gradients. So one all-reduce per step keeps all replicas equal forever: same weights, same
 * gradient, same update.
 *
 * Formula: the loss is the sum over all tokens / (global tokens). Every rank scales its loss by the *global* count
 * (call->loss_weight). So gradients are summed and never averaged:
 *     g = sum_r g_r,   g_r = d/dw  1/(B T)  sum over r's tokens of loss(token)
 * With ep/, the replicas of an expert are fewer: a gradient is summed over those that hold the same weight
 * (param_replicas).
 *
 * Averaging per-rank means, as loss.mean() and DistributedDataParallel do, is the same only if all ranks have equal
 * numbers of tokens.
 *
 * Stored where: everything whole on every rank. Memory does not shrink with dp; zero/ shards it.
 *
 * Sent when: the last GRAD_READY of a bucket with `final` set starts its all-reduce, while backward goes on with
 * earlier layers. BACKWARD_END waits. Bytes per rank and step: 2 S (dp-1)/dp for S bytes of gradients.
 *
 * What breaks: an all-reduce that starts too early (see dp_bucket.c); replicas that disagree on the order of buckets.
 *
 * Source: Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020. */
#include "dp/dp.h"

#include "dp/dp_bucket.h"
#include "lib/run/run.h"
#include <stdlib.h>

static bool dp_wanted(const struct plan *plan) {
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    return mesh_size(AXIS_DP, &first) > 1;
}

static enum status dp_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    struct dp_buckets d;
    TRY(dp_buckets_init(&d, c->program, plan_bucket_bytes(plan)));
    dp_buckets_bill(&d, &c->program->place, bill);
    dp_buckets_fini(&d);
    return OK;
}

/* ---- events ---- */
static enum status dp_grad_ready(struct run *r, void *self, const struct event *e) {
    if (!e->final) return OK;           /* another microbatch, or another use of a tied weight, follows */
    enum mesh_axis axis = param_replicas(&r->program.params[e->param]);
    return dp_bucket_ready(self, e->param, r->arenas[TIER_DEVICE][ROLE_GRAD].base, r->mesh.group[axis]);
}

static enum status dp_backward_end(struct run *r, void *self, const struct event *e) {
    (void)r, (void)e;
    return dp_buckets_finish(self);
}

/* Alignment gaps between params are all-reduced too: zero them so that they never hold NaN. */
enum status dp_clear_gaps(struct run *r) {
    int64_t end = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_dense(w)) continue;
        TRY(r->device->clear(r->device, arena_at(&r->arenas[TIER_DEVICE][ROLE_GRAD], end), param_grad_offset(w) - end));
        end = param_grad_offset(w) + type_bytes(&w->grad_type);
    }
    return OK;
}

static enum status dp_attach(struct run *r, void **self) {
    struct dp_buckets *d = malloc(sizeof *d);
    if (!d) return FAIL(E_MEMORY, "no memory for the table of buckets");
    *self = d;
    TRY(dp_buckets_init(d, &r->program, plan_bucket_bytes(&r->plan)));
    TRY(dp_clear_gaps(r));
    TRY(run_subscribe(r, EVENT_GRAD_READY, dp_grad_ready, d));
    return run_subscribe(r, EVENT_BACKWARD_END, dp_backward_end, d);
}

static void dp_detach(struct run *r, void *self) {
    (void)r;
    dp_buckets_fini(self);
    free(self);
}

const struct technique technique_dp = {
    .name = "dp", .claims = CLAIM_GRAD_SUM, .yields = true, .wanted = dp_wanted, .cost = dp_cost,
    .attach = dp_attach, .detach = dp_detach};
