/* ranks: 2 4  more: 8  device: cpu
 *
 * Local steps against one process that trains the replicas one after the other, each as a serial run on its own
 * samples, and then takes the outer step. Losses, norms and weights of every step agree within 1e-10 in fp64, alone and
 * with tp, pp, cp, sp and recomputation. Bytes of memory and wire are the planned ones. With H = 1 and a linear update,
 * local steps equal the serial run. Settings that cannot work are refused. */
#include "cp/cp.h"
#include "dp_variants/local/local.h"
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { H = 3, STEPS = 2 * H, MAX_DP = 8 };

/* Dropout is off: a mask depends on the sample's place in the batch, and the oracle's batches have other places. */
static struct plan plan_of(int dp, struct local_options options) {
    struct plan p = parity_plan();
    p.layers = 2;
    model_options(&p)->dropout = 0;
    p.steps = STEPS;
    p.mesh.dp = dp;
    p.micro_batch = 2;
    *local_options(&p) = options;
    return p;
}

static const struct local_options AVERAGE = {H, 0, 1, 0}, POST = {H, H, 1, 0}, UNEVEN = {H, 1, 1, 0},
                                  DILOCO = {H, 0, 0.7, 0.9};

/* ---- the oracle: dp serial runs, and the outer step in plain doubles ---- */
struct replica {
    struct run run;
    enum status (*fetch)(void *, int, int32_t *const *);
    int number, dp;
    int64_t step;
};
struct oracle {
    struct local_options options;
    int dp, n_params;
    struct run plain;                    /* the first k steps, on the whole batch */
    struct replica replica[MAX_DP];
    double *start[MAX_PARAMS], *u[MAX_PARAMS];
};

/* Fetch a microbatch of a replica from its place in the layout's batch (run_samples.c). */
static enum status fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    struct replica *x = self;
    struct run *r = &x->run;
    int64_t first = ((int64_t)microbatch * x->dp + x->number) * r->plan.micro_batch;
    run_go_on_at_sample(r, x->step * x->dp * r->plan.global_batch + first - microbatch * r->plan.micro_batch);
    return x->fetch(r, microbatch, data);
}

static struct plan serial_of(const struct plan *p) {
    const struct model_options *model = model_options(p);
    struct plan serial = parity_plan();
    struct model_options *m = model_options(&serial);
    serial.layers = p->layers, m->dropout = model->dropout, serial.steps = p->steps;
    serial.micro_batch = p->micro_batch, serial.clip = p->clip;
    m->experts = model->experts, m->experts_per_token = model->experts_per_token;
    m->capacity = model->capacity, m->moe_group = model->moe_group, m->aux_loss = model->aux_loss;
    return serial;
}

static enum status open_serial(struct run *r, struct plan p) {
    TRY(plan_settle(&p, 1));
    TRY(run_create(r, &train_recipe, &p, WATCH_NOTHING));
    return layout_use_demo(r);
}

static enum status oracle_init(struct oracle *o, const struct plan *p) {
    struct plan serial = serial_of(p);
    memset(o, 0, sizeof *o);
    o->options = *local_options(p), o->dp = (int)p->mesh.dp;
    TRY(open_serial(&o->plain, serial));
    o->n_params = o->plain.program.n_params;
    serial.global_batch /= o->dp;
    for (int d = 0; d < o->dp; d++) {
        struct replica *x = &o->replica[d];
        TRY(open_serial(&x->run, serial));
        x->fetch = x->run.exec.hooks.fetch, x->number = d, x->dp = o->dp;
        x->run.exec.hooks.fetch = fetch, x->run.exec.hooks.self = x;
    }
    for (int i = 0; i < o->n_params; i++) {
        size_t n = (size_t)type_n(&o->plain.program.params[i].type);
        o->start[i] = calloc(n, sizeof(double)), o->u[i] = calloc(n, sizeof(double));
    }
    return OK;
}

static void oracle_fini(struct oracle *o) {
    run_destroy(&o->plain);
    for (int d = 0; d < o->dp; d++) run_destroy(&o->replica[d].run);
    for (int i = 0; i < o->n_params; i++) free(o->start[i]), free(o->u[i]);
}

static void copy_state(const struct param *from, struct param *to) {
    size_t bytes = (size_t)type_bytes(&from->type);
    memcpy(to->weight, from->weight, bytes);
    memcpy(param_state(to, 0), param_state(from, 0), bytes);
    memcpy(param_state(to, 1), param_state(from, 1), bytes);
}

static void begin_period(struct oracle *o, int64_t step) {
    for (int i = 0; i < o->n_params; i++) {
        const struct param *w = &o->plain.program.params[i], *first = &o->replica[0].run.program.params[i];
        for (int d = 0; d < o->dp && step == o->options.from && step > 0; d++)
            copy_state(w, &o->replica[d].run.program.params[i]);
        memcpy(o->start[i], first->weight, (size_t)type_bytes(&w->type));
    }
}

/* The outer step, written without local_outer: the mean of w_start - w, then u, then the look-ahead. */
static void outer_step(struct oracle *o) {
    const struct local_options *x = &o->options;
    for (int i = 0; i < o->n_params; i++) {
        int64_t n = type_n(&o->plain.program.params[i].type);
        for (int64_t k = 0; k < n; k++) {
            double mean = 0, w = 0;
            for (int d = 0; d < o->dp; d++) mean += ((double *)o->replica[d].run.program.params[i].weight)[k] / o->dp;
            double away = o->start[i][k] - mean;
            o->u[i][k] = x->momentum * o->u[i][k] + away;
            w = o->start[i][k] - x->lr * away - x->lr * x->momentum * o->u[i][k];
            for (int d = 0; d < o->dp; d++) ((double *)o->replica[d].run.program.params[i].weight)[k] = w;
        }
    }
}

/* Do step n, counted from 0. loss: the mean over replicas; norm: of each replica. */
static enum status oracle_step(struct oracle *o, int64_t n, double *loss, double norm[MAX_DP]) {
    *loss = 0;
    if (n < o->options.from) {
        TRY(run_step(&o->plain));
        *loss = o->plain.last.loss;
        for (int d = 0; d < o->dp; d++) norm[d] = o->plain.last.grad_norm;
        return OK;
    }
    if (n == o->options.from || n % o->options.steps == 0) begin_period(o, n);
    for (int d = 0; d < o->dp; d++) {
        struct run *r = &o->replica[d].run;
        o->replica[d].step = r->n_step = r->n_done = r->n_update = n;
        TRY(run_step(r));
        *loss += r->last.loss / o->dp, norm[d] = r->last.grad_norm;
    }
    if ((n + 1) % o->options.steps == 0) outer_step(o);
    return OK;
}

static const struct run *oracle_run(const struct oracle *o, int64_t n, int replica) {
    return n < o->options.from ? &o->plain : &o->replica[replica].run;
}

/* ---- a layout against the oracle ---- */
struct outcome { double loss, norm, weight, memory, wire, apart; };

static double worst(double a, double b) { return isnan(b) || b > a ? b : a; }

/* The largest difference over all params, relative to each param's largest weight. */
static double weights_differ(const struct run *r, const struct run *serial) {
    double all = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i], *s = NULL;
        double most = 0;
        if (!w->present) continue;
        for (int k = 0; k < serial->program.n_params; k++)
            if (!strcmp(serial->program.params[k].name, w->name)) s = &serial->program.params[k];
        if (!s) return NAN;
        for (int64_t k = 0; k < type_n(&s->type); k++) most = worst(most, fabs(((double *)s->weight)[k]));
        all = worst(all, layout_own_difference(r, w, false, s->weight) / most);
    }
    return all;
}

static enum status step_beside(struct run *r, struct oracle *o, int64_t n, struct outcome *out) {
    double loss, norm[MAX_DP];
    int d = r->plan.place.rank.dp;
    TRY(run_step(r));
    TRY(oracle_step(o, n, &loss, norm));
    out->loss = worst(out->loss, fabs(r->last.loss / loss - 1));
    out->norm = worst(out->norm, fabs(r->last.grad_norm / norm[d] - 1));
    out->weight = worst(out->weight, weights_differ(r, oracle_run(o, n, d)));
    if (n + 2 == STEPS) out->apart = weights_differ(r, oracle_run(o, n, (d + 1) % o->dp));   /* from another replica */
    return OK;
}

static enum status run_beside(const struct plan *plan, struct outcome *out) {
    struct run r = {0};
    struct oracle o;
    struct plan p = *plan;
    struct difference bytes = {0};
    enum status status = plan_settle(&p, comm_world_size());
    TRY(status);
    status = oracle_init(&o, &p);
    if (status == OK) status = run_create(&r, &train_recipe, &p, WATCH_LIFETIMES);
    if (status == OK) status = layout_use_demo(&r);
    for (int64_t n = 0; n < STEPS && status == OK; n++) {
        if (n == local_options(&p)->from)
            for (enum mesh_axis a = AXIS_SELF + 1; a < N_MESH_AXES; a++) group_ledger_reset(r.mesh.group[a]);
        status = step_beside(&r, &o, n, out);
    }
    if (status == OK && local_options(&p)->from % H == 0)
        status = layout_compare_bytes(&r, STEPS - (int)local_options(&p)->from, &bytes);
    out->memory = bytes.memory, out->wire = local_options(&p)->from ? 0 : bytes.wire;
    run_destroy(&r);
    oracle_fini(&o);
    return status;
}

static bool is_oracles(const struct plan *p) {
    struct outcome out = {0};
    enum status status = run_beside(p, &out);
    double *const all[] = {&out.loss, &out.norm, &out.weight, &out.memory, &out.wire};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = agree_max(*all[i]);
    bool ok = status == OK && out.loss < 1e-10 && out.norm < 1e-10 && out.weight < 1e-10 && out.memory == 0 &&
              out.wire < 1e-12 && agree_max(out.apart) > 1e-6;
    if (!agree_all(ok) && comm_is_rank_0())
        print_error("%s, from %d, lr %g, mu %g: %s, loss %.1e norm %.1e weight %.1e apart %.1e memory %g B wire %.1e\n",
                    layout_name(p), (int)local_options(p)->from, local_options(p)->lr, local_options(p)->momentum,
                    status_name(status), out.loss, out.norm, out.weight, out.apart, out.memory, out.wire);
    status_report();
    return agree_all(ok);
}

TEST(test_local_steps_are_those_of_one_process) {
    const struct local_options all[] = {AVERAGE, POST, UNEVEN, DILOCO};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct plan p = plan_of(comm_world_size(), all[i]);
        assert_true(is_oracles(&p));
    }
}

TEST(test_local_steps_in_company_are_those_of_one_process) {
    int n = comm_world_size();
    if (n < 4) skip();
    const struct { int64_t tp, cp, pp; bool sp; int recompute; const struct local_options *options; } company[] = {
        {2, 1, 1, false, RECOMPUTE_NONE, &AVERAGE}, {2, 1, 1, true, RECOMPUTE_FULL, &DILOCO},
        {1, 1, 2, false, RECOMPUTE_SELECTIVE, &DILOCO}, {1, 2, 1, false, RECOMPUTE_NONE, &DILOCO},
        {1, 2, 1, false, RECOMPUTE_NONE, &POST}, {2, 1, 2, false, RECOMPUTE_NONE, &DILOCO},
        {2, 2, 1, false, RECOMPUTE_NONE, &DILOCO}};
    for (size_t i = 0; i < sizeof company / sizeof *company; i++) {
        int64_t model = company[i].tp * company[i].cp * company[i].pp;
        if (model * 2 > n) continue;
        struct plan p = plan_of((int)(n / model), *company[i].options);
        p.mesh.tp = company[i].tp, p.mesh.cp = company[i].cp, p.mesh.pp = company[i].pp;
        plan_set_number(&p, "sp", company[i].sp);
        recompute_options(&p)->kind = company[i].recompute;
        assert_true(is_oracles(&p));
    }
}

/* The routers' losses are scaled like the cross-entropy loss. */
TEST(test_local_steps_with_experts_are_those_of_one_process) {
    struct plan p = plan_of(comm_world_size(), DILOCO);
    struct model_options *m = model_options(&p);
    m->experts = 4, m->experts_per_token = 2, m->moe_group = 2, m->capacity = 1, m->aux_loss = 0.05;
    assert_true(is_oracles(&p));
}

/* ---- laws ---- */
/* With eps far above sqrt(v), AdamW's update is lr/eps times a momentum, so it is linear in the gradients. Then the
 * mean of the replicas' updates is the update by the mean gradient, and H = 1 equals the serial run. sqrt(v) changes an
 * update by sqrt(v)/eps = 1e-12 of it. Clipping and decay are not linear, so both are off. */
TEST(test_one_local_step_is_dp_where_updates_are_linear) {
    struct reference ref;
    struct difference d = {0};
    struct plan p = plan_of(1, (struct local_options){0, 0, 1, 0});
    p.eps = 1e12, p.lr = 1e11, p.min_lr = 1e11, p.clip = 0, p.weight_decay = 0, model_options(&p)->dropout = 0.1;
    enum status status = reference_init(&ref, &p);
    p.mesh.dp = comm_world_size();
    *local_options(&p) = (struct local_options){1, 0, 1, 0};
    if (status == OK) status = plan_settle(&p, comm_world_size());
    if (agree_all(status == OK)) status = layout_compare(&p, &ref, &d);
    reference_fini(&ref);
    assert_ok(status);
    assert_close(d.loss, 0, 1e-10);
    assert_close(d.weight, 0, 1e-10);
    assert_close(d.memory, 0, 0);
    assert_close(d.wire, 0, 1e-12);
}

/* Before step k the run is plain data parallelism, with clipping. */
TEST(test_before_its_first_local_step_it_is_dp) {
    struct reference ref;
    struct difference d = {0};
    struct plan p = plan_of(1, (struct local_options){0, 0, 1, 0});
    model_options(&p)->dropout = 0.1, p.steps = 7;
    enum status status = reference_init(&ref, &p);
    p.mesh.dp = comm_world_size();
    *local_options(&p) = (struct local_options){7, PARITY_STEPS, 1, 0};
    if (status == OK) status = plan_settle(&p, comm_world_size());
    if (agree_all(status == OK)) status = layout_compare(&p, &ref, &d);
    reference_fini(&ref);
    assert_ok(status);
    assert_close(d.loss, 0, 1e-10);
    assert_close(d.norm, 0, 1e-10);
    assert_close(d.grad, 0, 1e-10);
    assert_close(d.weight, 0, 1e-10);
    assert_close(d.memory, 0, 0);
}

/* bf16: masters are averaged, and every replica's weights are their rounding. */
TEST(test_masters_are_averaged) {
    struct run r = {0};
    struct plan p = plan_of(comm_world_size(), DILOCO);
    bool same = true, rounded = true;
    p.precision = PRECISION_BF16;
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    for (int s = 0; s < STEPS && status == OK; s++) status = run_step(&r);
    for (int i = 0; i < r.program.n_params && status == OK; i++) {
        const struct param *w = &r.program.params[i];
        int64_t n = w->own_n;
        float *first = malloc((size_t)n * sizeof *first);
        memcpy(first, param_master(w), (size_t)n * sizeof *first);
        status = comm_broadcast(group_world(), first, n, FP32, 0);
        same &= memcmp(first, param_master(w), (size_t)n * sizeof *first) == 0;
        for (int64_t k = 0; k < n; k++)
            rounded &= ((uint16_t *)w->weight)[k] == bf16_from_float(((float *)param_master(w))[k]);
        free(first);
    }
    run_destroy(&r);
    assert_ok(status);
    assert_true(agree_all(same));
    assert_true(agree_all(rounded));
}

/* S: bytes of all weights. A step is billed 2 S (n-1)/n / H. The ledger has 2 S (n-1)/n in the last step of a period,
 * and nothing in the others. */
TEST(test_a_period_sends_the_weights_once) {
    struct run r = {0};
    struct plan p = plan_of(comm_world_size(), DILOCO);
    double S = 0, n = comm_world_size(), sent[H] = {0};
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    for (int s = 0; s < H && status == OK; s++) {
        group_ledger_reset(r.mesh.group[AXIS_DP]);
        status = run_step(&r);
        sent[s] = group_ledger(r.mesh.group[AXIS_DP])->entry[COMM_ALL_REDUCE].bytes;
    }
    for (int i = 0; i < r.program.n_params; i++) S += (double)type_bytes(&r.program.params[i].type);
    double billed = r.bill.wire_bytes[AXIS_DP];
    run_destroy(&r);
    assert_ok(status);
    for (int s = 0; s + 1 < H; s++) assert_close(sent[s], 0, 0);
    assert_close(sent[H - 1], 2 * S * (n - 1) / n, 1e-9 * S);
    assert_close(billed, 2 * S * (n - 1) / n / H, 1e-9 * S);
}

/* Set a gradient of one replica to NaN; its loss is finite. No rank may change a weight, and the step fails on all. */
static enum status spoil(struct run *r, void *self, const struct event *e) {
    (void)self, (void)e;
    struct param *w = &r->program.params[0];
    if (r->n_step == 1 && comm_world_rank() == comm_world_size() - 1) *(double *)w->grad = NAN;
    return OK;
}

TEST(test_a_norm_that_is_not_finite_ends_all_replicas) {
    struct run r = {0};
    struct plan p = plan_of(comm_world_size(), AVERAGE);
    double before = 0, after = 1;
    enum status status = layout_open(&r, p, WATCH_NOTHING), spoiled = OK;
    if (status == OK) status = run_subscribe(&r, EVENT_GRAD_COMBINE, spoil, NULL);
    if (status == OK) status = run_step(&r);
    if (status == OK) before = *(double *)r.program.params[0].weight, spoiled = run_step(&r);
    if (status == OK) after = *(double *)r.program.params[0].weight;
    run_destroy(&r);
    bool says = strstr(status_message(), "gradient norm of step 2") != NULL;
    status_clear();
    assert_true(agree_all(status == OK && spoiled == E_NUMERIC && says));
    assert_true(agree_all(before == after));
}

/* ---- refusals ---- */
static enum status compiled(struct plan plan) {
    struct run r;
    TRY(plan_settle(&plan, (int)mesh_n_ranks(&plan.mesh)));
    enum status status = run_compile(&r, &train_recipe, &plan, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

TEST(test_local_refuses_what_it_cannot_do) {
    const struct plan good = plan_of(4, DILOCO);
    struct plan p = good;
    assert_ok(compiled(p));
    p.mesh.dp = 1;
    assert_fails(compiled(p), E_CONFIG, "local-steps=3", "dp=1", "dp 2 or more");
    p = good, p.precision = PRECISION_FP16;
    assert_fails(compiled(p), E_CONFIG, "local-steps=3", "precision=fp16", "bf16");
    p = good, p.device = PLAN_DEVICE_CUDA;
    assert_fails(compiled(p), E_CONFIG, "local-steps=3", "device=cuda", "device cpu");
    p = good, p.precision = PRECISION_FP32, p.hidden = 64, p.sums = PLAN_SUMS_FIXED;
    assert_fails(compiled(p), E_CONFIG, "local-steps=3", "sums=fixed", "sums fast");
    p = good, plan_set_number(&p, "zero", 1);
    assert_fails(compiled(p), E_CONFIG, "zero", "local", "leave out what is given of zero", "or of local");
    p = good, model_options(&p)->experts = 4, p.mesh.ep = 2;
    assert_fails(compiled(p), E_CONFIG, "local-steps=3", "ep=2", "ep 1");
    p = good, p.steps = 7;
    assert_fails(compiled(p), E_CONFIG, "steps=7", "local-steps=3", "multiple");
    p = good, snprintf(p.save, sizeof p.save, "somewhere"), p.save_every = 4;
    assert_fails(compiled(p), E_CONFIG, "save-every=4", "local-steps=3", "multiple");
    p.save_every = 2 * H;
    assert_ok(compiled(p));
    p = good, p.mesh.pp = 2, pp_options(&p)->schedule = SCHEDULE_PIPEDREAM, p.clip = 0, model_options(&p)->tie = 0;
    assert_fails(compiled(p), E_CONFIG, "local-steps=3", "asynchronous", "1f1b");
    p = good, *local_options(&p) = (struct local_options){0, 0, 0.7, 0};
    assert_fails(compiled(p), E_CONFIG, "outer-lr=0.7", "local-steps=0", "give local-steps");
}

TESTS(unit_test(test_local_steps_are_those_of_one_process),
      unit_test(test_local_steps_in_company_are_those_of_one_process),
      unit_test(test_local_steps_with_experts_are_those_of_one_process),
      unit_test(test_one_local_step_is_dp_where_updates_are_linear),
      unit_test(test_before_its_first_local_step_it_is_dp), unit_test(test_masters_are_averaged),
      unit_test(test_a_period_sends_the_weights_once),
      unit_test(test_a_norm_that_is_not_finite_ends_all_replicas), unit_test(test_local_refuses_what_it_cannot_do))
