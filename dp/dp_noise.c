/* The gradient noise scale, measured by the replicas of data parallelism.
 *
 * Idea: a batch's gradient is the true one and noise: E |g|^2 = |G|^2 + tr S / B, with S the covariance of one sample's
 * gradient. Data parallelism has gradients of two batch sizes in each step: a replica's, of b = B/n samples, before the
 * all-reduce, and the batch's after it. Two equations give both unknowns, without bias:
 *     tr S  = (|g_b|^2 - |g_B|^2) / (1/b - 1/B)        |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)
 *     noise scale = tr S / |G|^2      in samples: beyond this batch, more samples per step save hardly any steps
 * |g_b|^2 is the mean over replicas. Each has its loss divided by the global count, so its sum g_r is 1/n of the
 * gradient of its own mean: |g_b|^2 = sum_r |n g_r|^2 / n = n sum_r |g_r|^2.
 *
 * Both numbers scatter from step to step, and a quotient of scattering numbers has a bias. So the scale is the quotient
 * of their means, in which a step counts 0.95 times as much as the next one.
 *
 * Sent when: everything as in dp.c, and one number per step, after the buckets.
 *
 * What breaks: squares that are taken after a bucket has begun; replicas of several ranks, each with a part of the
 * gradient, and with sequence parallelism a part of a sum: refused.
 *
 * Source: McCandlish et al. 2018, "An empirical model of large-batch training", appendix A.1. */
#include "dp/dp.h"
#include "dp/dp_bucket.h"
#include "lib/ops/reduce.h"
#include "lib/run/run.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

struct noise_options { int on; };
static const struct option OPTIONS[] = {
    {"noise-scale", OPTION_BOOL, "off", 0, 0, NULL, "",
     "measure the gradient noise scale, in samples, from the gradients of the replicas; it is in each row of metrics",
     "parallelism", offsetof(struct noise_options, on)}};

static bool noise_wanted(const struct plan *p) {
    const struct noise_options *o = plan_own(p, &technique_dp_noise.options);
    return o->on;
}

static enum status noise_check(const struct plan *p) {
    if (p->mesh.dp < 2)
        return FAIL(E_CONFIG, "noise-scale compares gradients of replicas, and dp=%" PRId64 "; use dp 2 or more, or "
                    "leave noise-scale out", p->mesh.dp);
    if (plan_replica_ranks(p) > 1)
        return FAIL(E_CONFIG, "noise-scale compares gradients of whole replicas, and %" PRId64 " ranks divide each; "
                    "use tp 1, pp 1, cp 1, or leave noise-scale out", plan_replica_ranks(p));
    return OK;
}

static enum status noise_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    if (c->program->fixed_sums)
        return FAIL(E_CONFIG, "noise-scale with sums=fixed: the uses of a tied weight are added up after backward; use "
                    "sums fast, or leave noise-scale out");
    for (int i = 0; i < c->program->n_params; i++)
        if (c->program->params[i].present && !param_is_dense(&c->program->params[i]))
            return FAIL(E_CONFIG, "noise-scale: the rows of %s have no gradient of their own; leave noise-scale out",
                        c->program->params[i].name);
    bill_exchange(bill, &c->program->place, (struct exchange){.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 1,
                                                              .dtype = FP64, .when = AT_END});
    bill->technique_comm_bytes += ARENA_ALIGN;
    return technique_dp.cost(plan, c, bill);
}

/* ---- events ---- */
/* sum: on the device, of the steps that are started; term: of one gradient */
struct noise { struct dp_buckets buckets; double *sum, *term, mean_trace, mean_squared; int n_ready; };

static enum status noise_grad_ready(struct run *r, void *self, const struct event *e) {
    struct noise *d = self;
    const struct param *w = &r->program.params[e->param];
    const struct reduce_buffer g = {w->grad, w->grad_type.dtype, type_n(&w->grad_type)};
    double *sum = &d->sum[r->n_step % STEPS_AHEAD];
    if (!e->final) return OK;
    TRY(reduce_sum_of_squares(r->device, &g, 1, d->n_ready ? d->term : sum, r->reduce_work));
    if (d->n_ready++) TRY(reduce_add(r->device, sum, d->term, FP64));
    return dp_bucket_ready(&d->buckets, e->param, r->arenas[TIER_DEVICE][ROLE_GRAD].base, r->mesh.group[AXIS_DP]);
}

static enum status noise_backward_end(struct run *r, void *self, const struct event *e) {
    struct noise *d = self;
    (void)e;
    TRY(dp_buckets_finish(&d->buckets));
    d->n_ready = 0;
    return comm_all_reduce(r->mesh.group[AXIS_DP], &d->sum[r->n_step % STEPS_AHEAD], 1, FP64, COMM_SUM);
}

static enum status noise_attach(struct run *r, void **self) {
    struct noise *d = *self = calloc(1, sizeof *d);
    void *base;
    if (!d) return FAIL(E_MEMORY, "no memory for the table of buckets");
    TRY(dp_buckets_init(&d->buckets, &r->program, plan_bucket_bytes(&r->plan)));
    TRY(run_take_comm(r, ARENA_ALIGN, &base));
    TRY(r->device->clear(r->device, base, ARENA_ALIGN));
    d->sum = base, d->term = d->sum + STEPS_AHEAD;
    TRY(dp_clear_gaps(r));
    TRY(run_subscribe(r, EVENT_GRAD_READY, noise_grad_ready, d));
    return run_subscribe(r, EVENT_BACKWARD_END, noise_backward_end, d);
}

static void noise_detach(struct run *r, void *self) {
    struct noise *d = self;
    (void)r;
    dp_buckets_fini(&d->buckets);
    free(d);
}

/* ---- report ---- */
void dp_noise(double n, double batch, double squares, double norm, double *trace, double *squared) {
    const double small = n * squares, large = norm * norm, b = batch / n;
    *trace = (small - large) / (1 / b - 1 / batch);
    *squared = (batch * large - b * small) / (batch - b);
}

static void set(json_t *row, const char *key, double x) {
    json_object_set_new(row, key, isfinite(x) ? json_real(x) : json_null());
}

static enum status noise_report(struct run *r, void *self, json_t *row) {
    struct noise *d = self;
    double sum, trace, squared;
    TRY(run_read_scalar(r, &d->sum[(r->n_done - 1) % STEPS_AHEAD], &sum));
    sum /= r->last.loss_scale * r->last.loss_scale;                  /* the norm is unscaled */
    dp_noise((double)r->plan.mesh.dp, (double)r->plan.global_batch, sum, r->last.grad_norm, &trace, &squared);
    set(row, "grad_noise", trace);
    set(row, "grad_squared", squared);
    if (isfinite(trace)) {
        d->mean_trace = 0.95 * d->mean_trace + trace;
        d->mean_squared = 0.95 * d->mean_squared + squared;
    }
    set(row, "noise_scale", d->mean_squared > 0 ? d->mean_trace / d->mean_squared : NAN);
    return OK;
}

const struct technique technique_dp_noise = {
    .name = "noise-scale", .options = {OPTIONS, 1, sizeof(struct noise_options)}, .claims = CLAIM_GRAD_SUM,
    .wanted = noise_wanted, .check = noise_check, .cost = noise_cost, .attach = noise_attach, .detach = noise_detach,
    .report = noise_report};
