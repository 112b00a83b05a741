/* Local steps: replicas that communicate once in H steps.
 *
 * Idea: data parallelism sums gradients in every step, so that replicas never differ. If the network between them is
 * slow, each replica instead takes H steps of its own, on its own samples, and then all average their weights.
 *
 * Formula. The inner steps are the run's own: AdamW on the gradient g_r of the replica's samples, clipped by its norm.
 * After step n, if H divides n (and n > k, see below), with w the weights that all replicas began with, w_r the weights
 * of replica r after its H steps, and u = 0 at first:
 *     d = 1/dp sum_r (w - w_r)                  the mean difference: the gradient of the outer step
 *     u = mu u + d                              Nesterov's momentum, as in PyTorch
 *     w = w - lr (d + mu u)                     then w_r = w for every r
 *
 *   local SGD        lr 1, mu 0: w is the mean of the w_r       (the default)
 *   post-local SGD   the same, after k steps of plain data parallelism: --local-from k
 *   DiLoCo           lr 0.7, mu 0.9, H a hundred and more
 *
 * The loss is divided once by the *global* number of tokens (lib/run/run_open.c). A gradient that is not summed over
 * replicas is therefore 1/dp of the replica's own. run.unscale, which also undoes loss scales, multiplies it by dp. The
 * reported loss is the mean over all samples.
 *
 * Stored where: w and u, in the optimizer's precision, next to Adam's moments (role optim). Each replica keeps
 * its own moments. After a multiple of H steps all weights equal w, so a checkpoint has u and every replica's
 * moments, but not w.
 *
 * Sent when: one all-reduce of the weights over AXIS_DP in H steps, for S bytes of weights 2 S (n-1)/n / H per step.
 * With cp, gradients are also all-reduced over cp in every step. The norm is a sum over one replica (AXIS_MODEL). Two
 * numbers of 8 bytes are all-reduced over the mesh in every step: the loss, and whether all norms are finite.
 *
 * What breaks: the sign of d; a sum in place of a mean; one replica's moments or norm used by all; a checkpoint between
 * two averages, when the replicas' models differ. dp below 2 is refused, because one replica averages nothing.
 *
 * Source: Stich 2019, "Local SGD converges fast and communicates little"; Lin et al. 2018, "Don't use large
 * mini-batches, use local SGD" (post-local); Douillard et al. 2023, "DiLoCo". */
#include "dp_variants/local/local.h"

#include "lib/base/integer.h"
#include "lib/run/run.h"
#include <inttypes.h>
#include <stdlib.h>

#define AT(field) offsetof(struct local_options, field)
static const struct option OPTIONS[] = {
    {"local-steps", OPTION_INT, "0", 0, 1e9, NULL, "steps",
     "dp: replicas take N steps of their own, then average their weights; 0: gradients are summed in every step",
     "parallelism", AT(steps)},
    {"local-from", OPTION_INT, "0", 0, 1e9, NULL, "steps", "local-steps: after N steps of plain dp", "parallelism",
     AT(from)},
    {"outer-lr", OPTION_REAL, "1", 1e-6, 100, NULL, "",
     "local-steps: rate of the step from the old weights towards the average; DiLoCo: 0.7", "parallelism", AT(lr)},
    {"outer-momentum", OPTION_REAL, "0", 0, 0.999, NULL, "", "local-steps: its Nesterov momentum; DiLoCo: 0.9",
     "parallelism", AT(momentum)},
};

static bool local_wanted(const struct plan *plan) {
    const struct local_options *o = local_options(plan);
    return o->steps > 0 || o->from > 0 || o->lr != 1 || o->momentum != 0;
}

/* ---- refusals ---- */
static enum status check_options(const struct local_options *o) {
    if (o->steps > 0) return OK;
    return FAIL(E_CONFIG, "local-from=%" PRId64 ", outer-lr=%g and outer-momentum=%g belong to local-steps, and "
                          "local-steps=0; give local-steps, or leave them out",
                o->from, o->lr, o->momentum);
}

static enum status check_layout(const struct plan *p) {
    int64_t H = local_options(p)->steps;
    if (p->mesh.dp < 2)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " averages replicas, and dp=%" PRId64 "; use dp 2 or more, or "
                              "local-steps 0",
                    H, p->mesh.dp);
    if (p->mesh.ep > 1)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " trains replicas apart, and with ep=%" PRId64 " they share "
                              "experts; use ep 1, or local-steps 0",
                    H, p->mesh.ep);
    if (plan_is_asynchronous(p))
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " averages between two steps, and asynchronous steps have no "
                              "such moment; use %s, or local-steps 0",
                    H, plan_synchronous_option(p));
    return OK;
}

static enum status check_numbers(const struct plan *p) {
    int64_t H = local_options(p)->steps;
    if (p->precision == PRECISION_FP16)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " averages after a fixed number of steps, and precision=fp16 may "
                              "skip any; use precision bf16 or fp32, or local-steps 0",
                    H);
    if (p->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " has no kernels for device=cuda; use device cpu, or "
                              "local-steps 0",
                    H);
    if (p->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " makes other updates for each dp, and sums=fixed promises the "
                              "same bits for all; use sums fast, or local-steps 0",
                    H);
    return OK;
}

/* Replicas have the same model only before step k, and after a multiple of H steps. */
static enum status check_ends(const struct plan *p) {
    const struct local_options *o = local_options(p);
    bool saves_between = p->save[0] && p->save_every && p->save_every % o->steps && p->steps > o->from;
    if (p->steps % o->steps && p->steps > o->from)
        return FAIL(E_CONFIG, "steps=%" PRId64 " end between two averages, with as many models as replicas; use steps "
                              "%" PRId64 ", a multiple of local-steps=%" PRId64,
                    p->steps, round_up(p->steps, o->steps), o->steps);
    if (saves_between)
        return FAIL(E_CONFIG, "save-every=%" PRId64 " saves between two averages, when there is no one model; use "
                              "save-every %" PRId64 ", a multiple of local-steps=%" PRId64,
                    p->save_every, round_up(p->save_every, o->steps), o->steps);
    return OK;
}

static enum status local_check(const struct plan *plan) {
    TRY(check_options(local_options(plan)));
    TRY(check_layout(plan));
    TRY(check_numbers(plan));
    return check_ends(plan);
}

static enum status local_rewrite(const struct plan *plan, struct program *p) {
    p->n_apart = (int)plan->mesh.dp;
    p->apart = plan->place.rank.dp;
    return OK;
}

/* Arrays of own elements, in addition to the optimizer's states. */
static const char START[] = "outer start", MOMENTUM[] = "outer momentum";

static enum status local_lowered(const struct compiled *c, struct program *p) {
    (void)c;
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        struct param_array a = {.name = START, .n = param_state_n(w), .dtype = w->state_dtype, .role = ROLE_OPTIM,
                                .tier = w->state_tier, .copies = 1};
        if (!param_is_dense(w)) continue;
        TRY(program_add_array(p, i, &a));
        a.name = MOMENTUM, a.saved_as = ".outer_momentum";
        TRY(program_add_array(p, i, &a));
    }
    return OK;
}

/* ---- when and over which ranks ---- */
/* True if this step, counted from 0, is local. */
static bool is_local(const struct run *r) { return r->n_step >= local_options(&r->plan)->from; }
static bool ends_period(const struct run *r) { return (r->n_step + 1) % local_options(&r->plan)->steps == 0; }

/* The axes over which gradients are summed. In local steps these are cp's, one for heads and one for shards. */
static const enum mesh_axis LOCAL[] = {AXIS_CP_HEADS, AXIS_CP}, PLAIN[] = {AXIS_DP};

/* ---- cost: of a step after the first k ---- */
static enum status local_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    const struct program *p = c->program;
    if (c->schedule->validates)
        return FAIL(E_CONFIG, "local-steps averages after an update, and with optim-sync=validate that may be taken "
                              "back; use optim-sync wait");
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (!param_is_stored(w)) continue;
        struct exchange x = {.op = COMM_ALL_REDUCE, .count = w->own_n, .dtype = w->grad_type.dtype, .when = AT_END};
        for (size_t k = 0; k < sizeof LOCAL / sizeof *LOCAL; k++) {
            x.axis = LOCAL[k];
            if (mesh_size(x.axis, &p->place) > 1) bill_exchange(bill, &p->place, x);
        }
        x.axis = AXIS_DP, x.dtype = w->state_dtype, x.every = local_options(plan)->steps;
        bill_exchange(bill, &p->place, x);
    }
    return OK;
}

/* ---- sums ---- */
struct local { struct comm_request *request; };    /* one for each param */

typedef void *array_of(const struct param *, enum dtype *);
static void *gradient_of(const struct param *w, enum dtype *dtype) { return *dtype = w->grad_type.dtype, w->grad; }
/* The weights in the optimizer's precision: the masters, if there are any. */
static void *weights_of(const struct param *w, enum dtype *dtype) {
    *dtype = w->state_dtype;
    return w->master ? param_master(w) : w->weight;
}

static enum status sum_over(struct run *r, struct local *l, enum mesh_axis axis, array_of *array) {
    const struct group *group = r->mesh.group[axis];
    enum dtype dtype;
    for (int i = 0; i < r->program.n_params && group_size(group) > 1; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_stored(w)) continue;
        void *x = array(w, &dtype);
        TRY(comm_all_reduce_start(group, x, w->own_n, dtype, COMM_SUM, &l->request[i]));
    }
    for (int i = 0; i < r->program.n_params; i++) TRY(comm_wait(&l->request[i]));
    return OK;
}

/* ---- events ---- */
/* Copy the weights that all replicas have, before the first local update changes them. */
static enum status remember_start(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        enum dtype dtype;
        if (!param_is_stored(w)) continue;
        void *x = weights_of(w, &dtype);
        TRY(r->device->copy(r->device, param_array(w, START)->at, x, w->own_n * (int64_t)dtype_size(dtype)));
    }
    r->apart = true;
    return OK;
}

static enum status local_backward_end(struct run *r, void *self, const struct event *e) {
    const enum mesh_axis *axes = is_local(r) ? LOCAL : PLAIN;
    size_t n = is_local(r) ? sizeof LOCAL / sizeof *LOCAL : sizeof PLAIN / sizeof *PLAIN;
    (void)e;
    for (size_t k = 0; k < n; k++) TRY(sum_over(r, self, axes[k], gradient_of));
    r->unscale = is_local(r) ? (double)r->plan.mesh.dp : 1;
    return is_local(r) && !r->apart ? remember_start(r) : OK;
}

/* begin: set x to start - x. Otherwise x is the sum of these over n replicas: set x to the result of the outer step. */
struct outer { bool begin; double n, lr, mu; };

#define OUTER_OF(real)                                                                                                 \
    static void outer_##real(const struct outer *o, real *restrict x, const real *restrict start, real *restrict u,   \
                             int64_t n) {                                                                              \
        _Pragma("omp parallel for") for (int64_t i = 0; i < n; i++) {                                                  \
            double momentum = u[i];                                                                                    \
            if (o->begin) x[i] = start[i] - x[i];                                                                      \
            else x[i] = (real)local_outer(x[i], start[i], o->n, o->lr, o->mu, &momentum);                              \
            u[i] = (real)momentum;                                                                                     \
        }                                                                                                              \
    }
OUTER_OF(float)
OUTER_OF(double)

static void outer(const struct run *r, const struct outer *o) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        enum dtype dtype;
        if (!param_is_stored(w)) continue;
        void *x = weights_of(w, &dtype), *start = param_array(w, START)->at, *u = param_array(w, MOMENTUM)->at;
        if (dtype == FP64) outer_double(o, x, start, u, w->own_n);
        else outer_float(o, x, start, u, w->own_n);
        if (w->master && !o->begin) dtype_convert(w->weight, w->type.dtype, x, dtype, w->own_n);
    }
}

/* AXIS_DP has dp x cp ranks. The terms of a replica's cp ranks are equal, so the mean over all is the mean over dp. */
static enum status local_publish(struct run *r, void *self, const struct event *e) {
    const struct local_options *options = local_options(&r->plan);
    struct outer o = {true, group_size(r->mesh.group[AXIS_DP]), options->lr, options->momentum};
    (void)e;
    if (!r->apart || !ends_period(r)) return OK;
    outer(r, &o);
    TRY(sum_over(r, self, AXIS_DP, weights_of));
    o.begin = false;
    outer(r, &o);
    r->apart = false;
    return OK;
}

/* ---- attach ---- */
static enum status clear_outer(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_stored(w)) continue;
        TRY(r->device->clear(r->device, param_array(w, START)->at, w->own_n * (int64_t)dtype_size(w->state_dtype)));
        TRY(r->device->clear(r->device, param_array(w, MOMENTUM)->at, w->own_n * (int64_t)dtype_size(w->state_dtype)));
    }
    return OK;
}

static enum status local_attach(struct run *r, void **self) {
    struct local *l = *self = calloc(1, sizeof *l);
    if (l) l->request = calloc((size_t)r->program.n_params + 1, sizeof *l->request);
    if (!l || !l->request) return FAIL(E_MEMORY, "no memory for %d requests", r->program.n_params);
    if (r->may_skip)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " averages after a fixed number of steps, and fp8 may skip any; "
                              "leave fp8 out, or use local-steps 0",
                    local_options(&r->plan)->steps);
    r->norm_axis = AXIS_MODEL;
    TRY(clear_outer(r));
    TRY(run_subscribe(r, EVENT_BACKWARD_END, local_backward_end, l));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, local_publish, l);
}

static void local_detach(struct run *r, void *self) {
    struct local *l = self;
    (void)r;
    free(l->request);
    free(l);
}

/* Two more arrays, START and MOMENTUM, with elements as wide as a moment. */
static void local_state_bytes(const struct plan *plan, struct state_bytes *x) {
    x->optim += local_options(plan)->steps ? 2 * (double)dtype_size(plan_dtype(plan)) : 0;
}

const struct technique technique_local = {
    .name = "local", .claims = CLAIM_GRAD_SUM,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct local_options)}, .wanted = local_wanted,
    .check = local_check, .rewrite = local_rewrite, .lowered = local_lowered, .state_bytes = local_state_bytes,
    .cost = local_cost, .attach = local_attach, .detach = local_detach};
