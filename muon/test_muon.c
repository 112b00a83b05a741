/* ranks: 1 2 4  device: cpu  threads: 1
 *
 * A run's update equals Muon's formula in plain loops; experts and bytes; refusals. tests/test_optimizers.c has Muon in
 * the company of all techniques. */
#include "muon/muon.h"

#include "driver/recipe.h"
#include "lib/ops/muon.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plan muon_plan(void) {
    struct plan p = parity_plan();
    p.optimizer = OPTIMIZER_MUON;
    p.layers = 2;
    return p;
}

/* ---- an update in plain loops ---- */
/* c = a b + s c, or a b^T; (m,k) (k,n) */
static void product(int m, int n, int k, const double *a, const double *b, bool transposed, double s, double *c) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++) sum += a[i * k + p] * (transposed ? b[j * k + p] : b[p * n + j]);
            c[i * n + j] = sum + s * c[i * n + j];
        }
}

/* O of u (rows, columns), in place. A matrix with more rows than columns is not transposed: (X X^T) X = X (X^T X). */
static void orthogonalize(int rows, int columns, double *u) {
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    int n = rows * columns;
    double *x = calloc((size_t)n, 8), *gram = calloc((size_t)rows * (size_t)rows, 8), *square = 0, norm = 0;
    for (int i = 0; i < n; i++) norm += u[i] * u[i];
    for (int i = 0; i < n; i++) u[i] /= sqrt(norm);
    square = calloc((size_t)rows * (size_t)rows, 8);
    for (int step = 0; step < 5; step++) {
        product(rows, rows, columns, u, u, true, 0, gram);
        product(rows, rows, rows, gram, gram, false, 0, square);
        for (int i = 0; i < rows * rows; i++) gram[i] = b * gram[i] + c * square[i];
        memcpy(x, u, (size_t)n * 8);
        product(rows, columns, rows, gram, x, false, a, u);
    }
    free(x);
    free(gram);
    free(square);
}

/* A step of a matrix, with momentum m before: m = 0.95 m + 0.05 g, u = 0.95 m + 0.05 g. */
static void muon_step(int rows, int columns, const double *g, const double *m, double lr, double decay, double *w) {
    int n = rows * columns;
    double *u = malloc((size_t)n * 8), adjust = 0.2 * sqrt(rows > columns ? rows : columns);
    for (int i = 0; i < n; i++) u[i] = 0.95 * (0.95 * m[i] + 0.05 * g[i]) + 0.05 * g[i];
    orthogonalize(rows, columns, u);
    for (int i = 0; i < n; i++) w[i] = (1 - lr * decay) * w[i] - lr * adjust * u[i];
    free(u);
}

/* Adam's first step: both moments' corrections cancel. */
static void adamw_step(int64_t n, const double *g, double lr, double decay, double eps, double *w) {
    for (int64_t i = 0; i < n; i++) w[i] = (1 - lr * decay) * w[i] - lr * g[i] / (fabs(g[i]) + eps);
}

/* Matrices of a layer by their names: how many are in one param, and their columns. */
struct kind { const char *name; int n, columns; };

static const struct kind *kind_of(const struct kind *kinds, const char *name) {
    const char *at = strchr(name, '.');
    for (; name[0] == 'h' && name[1] >= '0' && name[1] <= '9' && kinds->name; kinds++)
        if (!strcmp(at + 1, kinds->name)) return kinds;
    return NULL;
}

static double *copy_of(const void *x, int64_t n) { return memcpy(malloc((size_t)n * 8), x, (size_t)n * 8); }

/* A param before a step. */
struct before { double *w, *m; };

/* The worst difference of a param from its formula. AdamW's is that of the first step. */
static double difference(const struct run *r, const struct param *w, const struct kind *kind, struct before *b) {
    int64_t n = type_n(&w->type);
    double lr = r->last.lr, decay = w->decay ? r->plan.weight_decay : 0, worst = 0;
    if (!kind && r->n_done > 1) return 0;
    if (!kind) adamw_step(n, w->grad, lr, decay, r->plan.eps, b->w);
    for (int i = 0; kind && i < kind->n; i++) {
        int64_t each = n / kind->n;
        const double *g = (double *)w->grad + i * each;
        muon_step((int)(each / kind->columns), kind->columns, g, b->m + i * each, lr, decay, b->w + i * each);
    }
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(((double *)w->weight)[i] - b->w[i]));
    return worst;
}

/* Train a step, and compare every param. @return the worst difference; *found: the number of matrices */
static double step_difference(struct run *r, const struct kind *kinds, int *found) {
    struct before b[MAX_PARAMS];
    double worst = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        b[i] = (struct before){copy_of(w->weight, type_n(&w->type)), copy_of(param_state(w, 0), type_n(&w->type))};
    }
    assert_ok(run_step(r));
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        const struct kind *kind = kind_of(kinds, w->name);
        *found += kind != NULL && w->optimizer == &optimizer_muon_matrix && !param_state(w, 1);
        if (!kind) assert_true(w->optimizer == &optimizer_adamw && param_state(w, 1));
        worst = fmax(worst, difference(r, w, kind, &b[i]));
        free(b[i].w);
        free(b[i].m);
    }
    return worst;
}

/* Two steps: in the first u is a multiple of g, with Nesterov or without. */
static void check_update(struct plan p, const struct kind *kinds, int n_matrices) {
    struct run r;
    p.clip = 0, model_options(&p)->dropout = 0;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    assert_ok(layout_use_demo(&r));
    for (int step = 0; step < 2; step++) {
        int found = 0;
        /* weights below 2, their steps below lr; a rounding of u is enlarged 485 times, and a key's bias divides by
         * eps */
        assert_close(step_difference(&r, kinds, &found), 0, 1e-11);
        assert_int_equal(found, n_matrices);
    }
    run_destroy(&r);
}

TEST(test_a_run_updates_matrices_by_muon_and_all_else_by_adamw) {
    struct plan gpt = muon_plan(), llama = muon_plan();
    const struct kind of_gpt[] = {{"qkv.w", 3, (int)gpt.hidden}, {"proj.w", 1, (int)gpt.hidden},
                                  {"fc.w", 1, (int)gpt.hidden}, {"fc2.w", 1, 4 * (int)gpt.hidden}, {NULL, 0, 0}};
    check_update(gpt, of_gpt, 8);
    assert_ok(recipe_arch(&llama, "llama"));
    model_options(&llama)->kv_heads = 2, model_options(&llama)->ffn = 24, model_options(&llama)->tie = 0;
    const struct kind of_llama[] = {{"q.w", 1, (int)llama.hidden}, {"kv.w", 2, (int)llama.hidden},
                                    {"proj.w", 1, (int)llama.hidden}, {"up.w", 2, (int)llama.hidden},
                                    {"down.w", 1, 24}, {NULL, 0, 0}};
    check_update(llama, of_llama, 10);
}

/* ---- layouts with experts, whose replicas are fewer ---- */
static const struct trial { int dp, tp, pp, ep, zero, shard; } TRIALS[] = {
    {1, 1, 1, 1, 0, 0}, {2, 1, 1, 2, 1, 0}, {1, 2, 1, 1, 0, 0}, {1, 1, 2, 1, 0, 0}, {4, 1, 1, 2, 1, 0},
    {4, 1, 1, 4, 3, 0}, {2, 2, 1, 2, 1, 0}, {2, 1, 2, 2, 1, 0}, {4, 1, 1, 2, 1, 2}, {2, 2, 1, 1, 2, 0}};

static struct plan trial_plan(struct plan p, const struct trial *t) {
    p.mesh.dp = t->dp, p.mesh.tp = t->tp, p.mesh.pp = t->pp, p.mesh.ep = t->ep;
    plan_set_number(&p, "zero", t->zero);
    plan_set_number(&p, "shard", t->shard);
    p.micro_batch = 4;
    return p;
}

static bool is_serial(struct plan p, const struct reference *reference) {
    struct difference d = {0};
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = layout_compare(&p, reference, &d);
    bool ok = agree_all(status == OK && d.loss < 1e-12 && d.grad < 1e-12 && d.weight < 1e-12 && d.memory == 0 &&
                        d.wire < 1e-12);
    if (!ok && comm_is_rank_0())
        fprintf(stderr, "%s: loss %.1e grad %.1e weight %.1e memory %g wire %.1e\n", layout_name(&p), d.loss, d.grad,
                d.weight, d.memory, d.wire);
    status_report();
    return ok;
}

TEST(test_muon_of_experts_is_serial) {
    struct plan serial = muon_plan();
    struct reference reference;
    assert_ok(recipe_arch(&serial, "mixtral"));
    model_options(&serial)->experts = 8, model_options(&serial)->moe_group = 2, model_options(&serial)->capacity = 1;
    model_options(&serial)->ffn = 24, model_options(&serial)->tie = 0;
    enum status status = reference_init(&reference, &serial);
    bool ok = agree_all(status == OK);
    for (int i = 0; ok && i < (int)(sizeof TRIALS / sizeof *TRIALS); i++) {
        struct plan p = trial_plan(serial, &TRIALS[i]);
        if (mesh_n_ranks(&p.mesh) == comm_world_size()) ok = is_serial(p, &reference);
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(ok);
}

/* ---- bytes ---- */
struct sent { double all_to_all, all_gather, flops; int64_t n; };

/* What an update exchanges over an axis, and the flops of its iterations: rank 0's. */
static struct sent sent_of(struct plan p, enum mesh_axis axis) {
    struct sent x = {0, 0, 0, 0};
    struct run r;
    assert_ok(plan_settle(&p, 0));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    int ranks = mesh_size(axis, &r.plan.place);
    for (int i = 0; i < r.bill.n_exchanges; i++) {
        const struct exchange *e = &r.bill.exchanges[i];
        bool to_all = e->op == COMM_ALL_TO_ALL, gather = e->op == COMM_ALL_GATHER && e->when == AT_END;
        if (e->axis != axis || !(to_all || gather)) continue;
        *(to_all ? &x.all_to_all : &x.all_gather) += exchange_bytes(e, ranks);
        x.n += exchange_operations(e);
    }
    for (int i = 0; i < r.bill.n_updates; i++) x.flops += r.bill.updates[i].times * r.bill.updates[i].cost.flops;
    run_destroy(&r);
    return x;
}

static struct sent layered(int64_t layers, int64_t dp, int64_t tp, enum mesh_axis axis) {
    struct plan p = muon_plan();
    p.layers = layers, p.mesh.dp = dp, p.mesh.tp = tp, p.micro_batch = 1;
    plan_set_number(&p, "zero", dp > 1);
    return sent_of(p, axis);
}

/* A layer has four matrices, of 3, 1, 4 and 4 times hidden^2 elements: S bytes, in fp64. Under zero over n ranks, n
 * layers are distributed in 4 rounds: 2 S (n-1)/n for all n. One layer is gathered: S (n-1)/n for one. Two layers over
 * 4 ranks send the same either way, 2 S 3/4, and are distributed. */
TEST(test_muon_sends_the_fewer_bytes) {
    const double S = 12 * 16 * 16 * 8;
    struct sent four = layered(4, 4, 1, AXIS_DP), one = layered(1, 4, 1, AXIS_DP), two = layered(2, 4, 1, AXIS_DP);
    assert_close(four.all_to_all, 2 * S * 3 / 4, 0);
    assert_close(four.all_gather, 0, 0);
    assert_int_equal(four.n, 4 * 2);
    assert_close(one.all_gather, S * 3 / 4, 0);
    assert_close(one.all_to_all, 0, 0);
    assert_int_equal(one.n, 4);
    assert_close(two.all_to_all, 2 * S * 3 / 4, 0);
    assert_close(two.all_gather, 0, 0);
    /* five layers: a round of four, and one layer that is gathered */
    struct sent five = layered(5, 4, 1, AXIS_DP);
    assert_close(five.all_to_all, four.all_to_all, 0);
    assert_close(five.all_gather, one.all_gather, 0);
}

/* dp 2 x tp 2, four layers: a rank first has shards of halves, S/4 of each layer. After zero's exchange it has halves
 * of two layers, after tp's one whole layer. */
TEST(test_muon_exchanges_shards_and_then_boxes) {
    const double S = 12 * 16 * 16 * 8;
    struct sent dp = layered(4, 2, 2, AXIS_DP), tp = layered(4, 2, 2, AXIS_TP), alone = layered(4, 1, 2, AXIS_TP);
    assert_close(dp.all_to_all, 2 * 2 * (S / 2) / 2, 0);
    assert_close(tp.all_to_all, 2 * 1 * S / 2, 0);
    assert_close(alone.all_to_all, 2 * 2 * S / 2, 0);
    assert_close(dp.all_gather + tp.all_gather + alone.all_gather, 0, 0);
}

TEST(test_replicas_without_shards_send_nothing_for_muon) {
    struct plan p = muon_plan();
    p.mesh.dp = 4, p.micro_batch = 1;
    assert_int_equal(sent_of(p, AXIS_DP).n, 0);
}

/* A layer has q, k, v and the projection, 16 x 16, and two matrices of 16 x 64: F flops in 5 iterations. Each of n
 * ranks iterates 1/n of layers that are distributed, and all of those that are gathered; replicas iterate all. */
TEST(test_muon_bills_the_products_of_the_matrices_it_has) {
    const double F = 5 * (4 * (6 * 16 * 16 * 16) + 2 * (4 * 16 * 16 * 64 + 2 * 16 * 16 * 16));
    assert_close(layered(4, 1, 1, AXIS_DP).flops, 4 * F, 0);
    assert_close(layered(4, 4, 1, AXIS_DP).flops, F, 0);
    assert_close(layered(4, 2, 2, AXIS_DP).flops, F, 0);
    assert_close(layered(4, 1, 2, AXIS_TP).flops, 2 * F, 0);
    assert_close(layered(1, 4, 1, AXIS_DP).flops, F, 0);
    assert_close(layered(5, 4, 1, AXIS_DP).flops, 2 * F, 0);
    struct plan p = muon_plan();
    p.mesh.dp = 4, p.micro_batch = 1, muon_options(&p)->steps = 3;
    assert_close(sent_of(p, AXIS_DP).flops, 2 * F * 3 / 5, 1e-6);
    p.optimizer = OPTIMIZER_ADAMW, muon_options(&p)->steps = 5;
    assert_close(sent_of(p, AXIS_DP).flops, 0, 0);
}

TEST(test_adjust_is_by_the_shape) {
    assert_close(muon_adjusted(MUON_ORIGINAL, 8, 2), 2, 0);
    assert_close(muon_adjusted(MUON_ORIGINAL, 2, 8), 1, 0);
    assert_close(muon_adjusted(MUON_SPECTRAL_UNCLAMPED, 2, 8), 0.5, 0);
    assert_close(muon_adjusted(MUON_MATCH_RMS_ADAMW, 2, 9), 0.6, 1e-15);
    assert_close(muon_adjusted(MUON_MATCH_RMS_ADAMW, 9, 2), 0.6, 1e-15);
}

/* ---- refusals ---- */
static void check_refused(struct plan p, const char *what, const char *remedy) {
    struct run r;
    p.mesh.dp = p.mesh.dp ? p.mesh.dp : 1;
    assert_ok(plan_settle(&p, 0));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, what, remedy);
    run_destroy(&r);
}

TEST(test_muon_refuses) {
    struct plan offload = muon_plan(), validate = muon_plan(), served = muon_plan(), fixed = muon_plan();
    struct plan adamw = muon_plan(), still = muon_plan();
    offload.mesh.dp = 2, offload.micro_batch = 8;
    plan_set_number(&offload, "zero", 1);
    plan_set_word(&offload, "offload", "optimizer", 0);
    check_refused(offload, "offload moves their states away", "use offload none");
    validate.mesh.pp = 2, validate.micro_batch = 1;
    plan_set_word(&validate, "schedule", "zb-2p", 0);
    plan_set_word(&validate, "optim-sync", "validate", 0);
    check_refused(validate, "optim-sync=validate", "use optim-sync wait");
    served.mesh.dp = 2, served.micro_batch = 8;
    plan_set_number(&served, "servers", 1);
    check_refused(served, "each of servers=", "use servers 0");
    fixed.sums = PLAN_SUMS_FIXED, fixed.precision = PRECISION_FP32;
    check_refused(fixed, "sums=fixed", "use sums fast");
    adamw.optimizer = OPTIMIZER_ADAMW, muon_options(&adamw)->steps = 3;
    check_refused(adamw, "optimizer=adamw reads none", "use optimizer muon");
    still.lr = still.min_lr = 0, muon_options(&still)->lr = 0.02;
    check_refused(still, "muon-lr=0.02 follows the schedule of lr, and lr=0", "or muon-lr 0");
}

TESTS(unit_test(test_a_run_updates_matrices_by_muon_and_all_else_by_adamw), unit_test(test_adjust_is_by_the_shape),
      unit_test(test_muon_of_experts_is_serial), unit_test(test_muon_sends_the_fewer_bytes),
      unit_test(test_muon_exchanges_shards_and_then_boxes),
      unit_test(test_replicas_without_shards_send_nothing_for_muon),
      unit_test(test_muon_bills_the_products_of_the_matrices_it_has), unit_test(test_muon_refuses))
