/* ranks: 1  device: cpu
 *
 * Norm, clipping and AdamW of a real run, against the formulas in plain loops. */
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* ---- a small run on the demonstration text ---- */
static struct data_file *demo;
static struct run r;

static void create(const struct plan *plan) {
    struct plan p = *plan;
    struct data_split train, val;
    assert_ok(plan_settle(&p, 1));
    assert_ok(data_open("configs/demo.txt", &demo));
    assert_ok(data_split_tail(demo, p.seq, 0.1, &train, &val));
    assert_ok(run_create(&r, &train_recipe, &p, false));
    run_set_data(&r, &train, &val);
}

static int destroy(void **state) {
    (void)state;
    run_destroy(&r);
    data_close(&demo);
    return 0;
}
#define optim_test(f) cmocka_unit_test_teardown(f, destroy)

static struct plan plan_with(double clip, double weight_decay) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.clip = clip;
    p.weight_decay = weight_decay;
    return p;
}

/* ---- AdamW as in the paper, one element at a time, without threads, shards or fused products ---- */
struct adam { double *w, *m, *v; int64_t n; };

static struct adam adam_init(const struct param *p) {
    int64_t n = type_n(&p->type);
    struct adam a = {malloc((size_t)n * 8), calloc((size_t)n, 8), calloc((size_t)n, 8), n};
    memcpy(a.w, p->weight, (size_t)n * 8);
    return a;
}
static void adam_fini(struct adam *a) {
    free(a->w);
    free(a->m);
    free(a->v);
}

static void adam_step(struct adam *a, const double *grad, double factor, double lr, double decay, int t) {
    const struct plan *p = &r.plan;
    for (int64_t i = 0; i < a->n; i++) {
        double g = factor * grad[i];
        a->m[i] = p->beta1 * a->m[i] + (1 - p->beta1) * g;
        a->v[i] = p->beta2 * a->v[i] + (1 - p->beta2) * g * g;
        double m_hat = a->m[i] / (1 - pow(p->beta1, t)), v_hat = a->v[i] / (1 - pow(p->beta2, t));
        a->w[i] = a->w[i] - lr * decay * a->w[i] - lr * m_hat / (sqrt(v_hat) + p->eps);
    }
}

/* Decide by name, because w->decay is under test: biases, and layernorm's gain and bias, are vectors; all other params
 * are matrices. */
static bool decays(const struct param *w) {
    const char *end = w->name + strlen(w->name) - 2;
    return strcmp(end, ".b") != 0 && strcmp(end, ".g") != 0;
}

static double plain_norm(void) {
    double sum = 0;
    for (int i = 0; i < r.program.n_params; i++)
        for (int64_t k = 0; k < type_n(&r.program.params[i].type); k++) {
            double g = ((double *)r.program.params[i].grad)[k];
            sum += g * g;
        }
    return sqrt(sum);
}

static double plain_factor(double norm) {
    double factor = r.plan.clip / (norm + 1e-6);
    return factor < 1 && r.plan.clip > 0 ? factor : 1;
}

/* ---- norm and clipping ---- */
/* A sum of n positive terms, in any order, has a relative error of at most n u, u = 2^-53; the root halves it. Here n
 * is about 10^4. */
TEST(test_norm_is_that_of_all_gradients) {
    struct plan p = plan_with(0.5, 0.1);
    create(&p);
    assert_ok(run_step(&r));
    double n = (double)program_n_params(&r.program), norm = plain_norm();
    assert_true(norm > 0.1);
    assert_close(r.last.grad_norm, norm, norm * n * 0x1p-53);
}

/* A second copy (the pipeline's copy of the embedding, a replica's copy of all params) is counted by another rank. */
TEST(test_norm_leaves_out_what_is_counted_elsewhere) {
    struct plan p = plan_with(0.5, 0.1);
    create(&p);
    assert_ok(run_step(&r));
    struct param *w = &r.program.params[0];
    w->in_norm = false;
    assert_ok(optim_squares(&r));
    double without = sqrt(run_scalars(&r)[SCALAR_SQUARES]);
    w->in_norm = true;
    assert_ok(optim_squares(&r));
    double norm = sqrt(run_scalars(&r)[SCALAR_SQUARES]);
    double its = 0;
    for (int64_t i = 0; i < type_n(&w->type); i++) its += pow(((double *)w->grad)[i], 2);
    assert_true(its > 0.01 * norm * norm);
    assert_close(without, sqrt(norm * norm - its), 1e-12 * norm);
}

TEST(test_clip_factor_is_pytorchs) {
    assert_close(optim_clip_factor(4, 1), 1 / 4.000001, 1e-16);
    assert_close(optim_clip_factor(1e-6, 1e-6), 0.5, 1e-16);         /* here the 1e-6 halves the factor */
    assert_close(optim_clip_factor(0.5, 1), 1, 0);                   /* gradients are never made longer */
    assert_close(optim_clip_factor(1, 1), 1 / 1.000001, 1e-16);
    assert_close(optim_clip_factor(0, 1), 1, 0);
    assert_close(optim_clip_factor(1e9, 0), 1, 0);                   /* clip 0: off */
}

/* grad_norm is the norm before clipping. */
TEST(test_step_reports_the_norm_before_clipping) {
    struct plan p = plan_with(0.01, 0.1);
    create(&p);
    assert_ok(run_step(&r));
    assert_true(r.last.grad_norm > 0.1);
    assert_close(r.last.clip_factor, 0.01 / (r.last.grad_norm + 1e-6), 1e-15);
}

/* ---- AdamW ---- */
static double largest_difference(struct adam *a) {
    double worst = 0;
    for (int i = 0; i < r.program.n_params; i++)
        for (int64_t k = 0; k < a[i].n; k++) {
            double diff = fabs(((double *)r.program.params[i].weight)[k] - a[i].w[k]);
            if (!(diff <= worst)) worst = diff;
        }
    return worst;
}

/* In each step both sides round numbers below 1.2 (layernorm gains are 1, other weights less) a dozen times, each time
 * by at most u = 2^-53 of the number. So the error of 3 steps is below 3 x 12 x 1.2 u. */
static void check_adamw(const struct plan *plan) {
    create(plan);
    int n = r.program.n_params;
    struct adam *a = malloc((size_t)n * sizeof *a);
    double worst = 0;
    for (int i = 0; i < n; i++) a[i] = adam_init(&r.program.params[i]);
    for (int t = 1; t <= 3; t++) {
        assert_ok(run_step(&r));
        double factor = plain_factor(plain_norm());
        for (int i = 0; i < n; i++) {
            const struct param *w = &r.program.params[i];
            adam_step(&a[i], w->grad, factor, plan_lr(&r.plan, t - 1), decays(w) ? plan->weight_decay : 0, t);
        }
        worst = largest_difference(a);
    }
    for (int i = 0; i < n; i++) adam_fini(&a[i]);
    free(a);
    assert_close(worst, 0, 3 * 12 * 1.2 * 0x1p-53);
}

TEST(test_three_steps_are_adamw_with_clipping) {
    struct plan p = plan_with(0.5, 0.1);
    check_adamw(&p);
    assert_true(r.last.clip_factor < 1);
}

TEST(test_three_steps_are_adamw_without_clipping) {
    struct plan p = plan_with(0, 0.1);
    check_adamw(&p);
}

/* The decay is so strong that missing it, or applying it to a bias or a gain, shows. */
TEST(test_decay_is_for_matrices_only) {
    struct plan p = plan_with(0.5, 10);
    int n_matrices = 0;
    check_adamw(&p);
    for (int i = 0; i < r.program.n_params; i++) {
        assert_int_equal(r.program.params[i].decay, decays(&r.program.params[i]));
        n_matrices += r.program.params[i].decay;
    }
    assert_int_equal(n_matrices, 2 + 4 * 2);                         /* wte and wpe; qkv, proj, fc and fc2 of each
                                                                      * layer */
}

TEST(test_warmup_reaches_the_optimizer) {
    struct plan p = plan_with(0.5, 0.1);
    p.warmup = 4;
    check_adamw(&p);
    assert_close(r.last.lr, p.lr * 3 / 4, 0);
}

/* ---- own elements ---- */
/* As with zero, this rank updates elements 3 .. 3 + n of each param, and must change no other element. */
TEST(test_only_own_elements_are_updated) {
    struct plan p = plan_with(0.5, 0.1);
    create(&p);
    assert_ok(run_step(&r));
    struct param *w = &r.program.params[0];
    int64_t n = type_n(&w->type);
    double *before = malloc((size_t)n * 8), *after = w->weight;
    memcpy(before, after, (size_t)n * 8);
    w->own_first = 3;
    w->own_n = 20;
    run_scalars(&r)[SCALAR_MULTIPLIER] = 1;
    enum status status = optim_step(&r, &(struct step_record){.result.lr = 0.1, .on_device = run_scalars(&r)});
    int moved_own = 0, moved_other = 0;
    for (int64_t i = 0; i < n; i++) *(i >= 3 && i < 23 ? &moved_own : &moved_other) += before[i] != after[i];
    free(before);
    assert_ok(status);
    assert_int_equal(moved_own, 20);
    assert_int_equal(moved_other, 0);
}

TEST(test_own_elements_lie_where_the_param_is_kept) {
    double weight[10], grad[10];
    struct param w = {.type = {FP64, {1, {axis_whole('C', 10)}}}, .grad_type = {FP64, {1, {axis_whole('C', 10)}}},
                      .weight = weight, .grad = grad, .own_first = 4, .own_n = 3};
    assert_ptr_equal(param_own_weight(&w), weight + 4);              /* whole: own elements are inside */
    assert_ptr_equal(param_own_grad(&w), grad + 4);
    w.weight_residence = w.grad_residence = RESIDENT_OWN;                          /* only own elements exist */
    assert_ptr_equal(param_own_weight(&w), weight);
    assert_ptr_equal(param_own_grad(&w), grad);
}

TESTS(optim_test(test_norm_is_that_of_all_gradients), optim_test(test_norm_leaves_out_what_is_counted_elsewhere),
      unit_test(test_clip_factor_is_pytorchs), optim_test(test_step_reports_the_norm_before_clipping),
      optim_test(test_three_steps_are_adamw_with_clipping), optim_test(test_three_steps_are_adamw_without_clipping),
      optim_test(test_decay_is_for_matrices_only), optim_test(test_warmup_reaches_the_optimizer),
      optim_test(test_only_own_elements_are_updated), unit_test(test_own_elements_lie_where_the_param_is_kept))
