/* ranks: 1 2  threads: 1
 *
 * A run with a mixture of experts: plans that are refused, reported numbers, and routes that are never recomputed. */
#include "driver/recipe.h"
#include "lib/ops/moe/moe_route.h"
#include "lib/run/run.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"

static struct plan moe_plan(int experts, int k, double capacity) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.layers = 4;
    m->experts = experts, m->experts_per_token = k, m->moe_group = 2, m->capacity = capacity;
    m->aux_loss = 0.05, m->z_loss = 0.01;
    p.micro_batch = 2;
    p.mesh.dp = comm_world_size();
    return p;
}

/* ---- refusals ---- */
TEST(test_experts_are_refused_where_they_cannot_be) {
    struct plan p = moe_plan(8, 9, 1);
    assert_fails(plan_settle(&p, 0), E_CONFIG, "experts-per-token=9", "experts=8");
    p = moe_plan(8, 2, 1);
    p.mesh.pp = 2, model_options(&p)->tie = 0;
    pp_options(&p)->schedule = SCHEDULE_PIPEDREAM;
    assert_fails(plan_settle(&p, 0), E_CONFIG, "experts=8", "use schedule 1f1b");
}

static enum status compiled(struct plan p, int rank, struct run *r) {
    TRY(plan_settle(&p, 0));
    return run_compile(r, &train_recipe, &p, rank, NULL, NULL);
}

TEST(test_mixtral_without_experts_is_refused) {
    struct plan p = moe_plan(0, 2, 1);
    struct run r;
    assert_ok(recipe_arch(&p, "mixtral"));
    assert_fails(compiled(p, 0, &r), E_CONFIG, "arch=mixtral", "experts=0", "arch llama");
    run_destroy(&r);
}

/* The default group is the same in all layouts. If a rank has no whole number of groups, the error says what fits. */
TEST(test_a_group_must_lie_on_one_rank) {
    struct plan p = moe_plan(8, 2, 1);
    struct run r;
    p.mesh.cp = 2, model_options(&p)->moe_group = 0;
    assert_int_equal(plan_moe_group(&p), 8);
    assert_fails(compiled(p, 0, &r), E_CONFIG, "moe-group=8", "the run of 2 tokens", "moe-group 2");
    run_destroy(&r);
    p.seq = 1000;
    assert_int_equal(plan_moe_group(&p), 256);
}

TEST(test_counts_are_those_of_the_program) {
    const char *const archs[] = {"gpt", "llama", "mixtral", "moe", "gpt_oss"};
    for (int i = 0; i < 5; i++) {
        struct plan p = moe_plan(8, 2, 1);
        struct program program;
        model_options(&p)->ffn = 24;
        program_init(&program);
        assert_ok(recipe_arch(&p, archs[i]));
        plan_set_number(&p, "expert-bias", i > 3), plan_set_number(&p, "router-bias", i > 3);
        assert_ok(p.arch->build(&p, &program));
        assert_true(program_n_params(&program) == p.arch->n_params(&p));
        program_fini(&program);
    }
}

/* ---- precision, replay ---- */
static const struct param *param_of(const struct run *r, const char *name) {
    for (int i = 0; i < r->program.n_params; i++)
        if (!strcmp(r->program.params[i].name, name)) return &r->program.params[i];
    fail_msg("no param is called %s", name);
    return NULL;
}

TEST(test_the_router_stays_in_full_precision) {
    struct plan p = moe_plan(8, 2, 1);
    struct run r;
    p.precision = PRECISION_BF16;
    assert_ok(compiled(p, 0, &r));
    const struct param *router = param_of(&r, "h0.router.w"), *expert = param_of(&r, "h0.experts.up.w");
    assert_int_equal(router->type.dtype, FP32);
    assert_int_equal(router->grad_type.dtype, FP32);
    assert_false(router->master);
    assert_int_equal(expert->type.dtype, BF16);
    assert_true(expert->master);
    run_destroy(&r);
}

/* Full recomputation replays the logits and the experts' hidden units, but never the routing. */
TEST(test_picks_are_never_made_again) {
    struct plan p = moe_plan(8, 2, 1);
    struct run r;
    int replays = 0, routes = 0;
    recompute_options(&p)->kind = RECOMPUTE_FULL;
    assert_ok(compiled(p, 0, &r));
    const struct tape *t = &r.chunks[0].tapes[TAPE_B];
    for (int i = 0; i < t->n; i++) {
        if (t->rows[i].kind != ROW_REPLAY) continue;
        replays++;
        routes += r.program.steps[t->rows[i].id].op == &op_moe_route;
    }
    run_destroy(&r);
    assert_true(replays > 0);
    assert_int_equal(routes, 0);
}

/* ---- reported numbers ---- */
static enum status first_step(struct plan p, struct run *r) {
    TRY(layout_open(r, p, WATCH_NOTHING));
    return run_step(r);
}

/* Every token goes to every expert, so an expert's fraction f of tokens is 1/E, and its probabilities p sum to 1. Then
 * a layer's load loss is its weight (0.05) for any router. Each of four layers and eight microbatches counts once. */
TEST(test_losses_of_all_layers_and_microbatches_count_once) {
    struct run r;
    struct plan p = moe_plan(4, 4, 0);
    model_options(&p)->z_loss = 0;
    recompute_options(&p)->kind = RECOMPUTE_FULL;
    assert_ok(first_step(p, &r));
    assert_close(r.last.aux_loss, 4 * 0.05, 1e-14);
    assert_close(r.last.expert_load, 1, 1e-14);
    assert_close(r.last.dropped, 0, 0);
    run_destroy(&r);
}

/* ---- finite differences of the whole loss, with router and experts, check the serial run's gradients ----
 * h = 1e-6 is so small that no token changes its experts between the two points. The losses, about 5, are exact to
 * 1e-15, and the quotient to 1e-9; its truncation error is h^2 times a third derivative. */
static enum status loss_at(struct run *r, double *w, double value, double *loss) {
    double before = *w, aux = 0;
    *w = value;
    enum status status = exec_run(&r->exec, &r->schedule, true);
    if (status == OK) status = run_read_scalar(r, &run_scalars(r)[SCALAR_LOSS], loss);
    if (status == OK) status = run_read_scalar(r, &run_scalars(r)[SCALAR_AUX_LOSS], &aux);
    *loss += aux;
    *w = before;
    return status;
}

static enum status worst_slope(struct run *r, double *worst) {
    double gradient[MAX_PARAMS], above, below;
    const double h = 1e-6;
    TRY(exec_run(&r->exec, &r->schedule, true));
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        gradient[i] = ((double *)w->grad)[type_n(&w->type) / 3];
    }
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        double *at = (double *)w->weight + type_n(&w->type) / 3;
        TRY(loss_at(r, at, *at + h, &above));
        TRY(loss_at(r, at, *at - h, &below));
        double error = fabs((above - below) / (2 * h) - gradient[i]);
        if (!(error <= *worst)) *worst = error;
    }
    return OK;
}

TEST(test_gradients_of_a_model_with_experts_are_slopes) {
    for (int i = 0; i < 4; i++) {
        struct plan p = moe_plan(8, 1 + i % 2, i < 2 ? 1 : 0);
        struct run r;
        double worst = 0;
        p.layers = 2, model_options(&p)->dropout = 0, p.loss_chunk = 0, p.mesh.dp = 1, p.micro_batch = 16;
        assert_ok(recipe_arch(&p, i % 2 ? "llama" : "gpt"));
        assert_ok(plan_settle(&p, 1));
        enum status status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
        if (status == OK) status = layout_use_demo(&r);
        if (status == OK) status = worst_slope(&r, &worst);
        run_destroy(&r);
        assert_ok(status);
        assert_close(worst, 0, 2e-8);
    }
}

/* With room for all tokens, no choice is dropped. The fullest expert has at least its share, and at most all tokens. */
TEST(test_losses_of_routers_are_reported_apart) {
    struct run with, without;
    struct plan p = moe_plan(8, 2, 0);
    enum status status = first_step(p, &with);
    model_options(&p)->aux_loss = model_options(&p)->z_loss = 0;
    if (agree_all(status == OK)) status = first_step(p, &without);
    assert_ok(status);
    assert_true(with.last.aux_loss > 4 * 0.05 && with.last.expert_load >= 1 && with.last.expert_load <= 4);
    assert_close(with.last.dropped, 0, 0);
    assert_close(without.last.aux_loss, 0, 0);
    assert_close(with.last.loss - with.last.aux_loss, without.last.loss, 1e-14 * without.last.loss);
    run_destroy(&with);
    run_destroy(&without);
}

static enum status evaluated(struct plan p, double *loss) {
    struct run r;
    p.lr = p.min_lr = 0;
    enum status status = first_step(p, &r);
    if (agree_all(status == OK)) status = run_evaluate(&r, 1, loss);
    run_destroy(&r);
    return status;
}

TEST(test_evaluation_has_no_losses_of_routers) {
    double with, without;
    struct plan p = moe_plan(8, 2, 1);
    enum status status = evaluated(p, &with);
    model_options(&p)->aux_loss = model_options(&p)->z_loss = 0;
    if (agree_all(status == OK)) status = evaluated(p, &without);
    assert_ok(status);
    assert_close(with, without, 0);
}

TESTS(unit_test(test_experts_are_refused_where_they_cannot_be), unit_test(test_mixtral_without_experts_is_refused),
      unit_test(test_a_group_must_lie_on_one_rank), unit_test(test_counts_are_those_of_the_program),
      unit_test(test_gradients_of_a_model_with_experts_are_slopes), unit_test(test_the_router_stays_in_full_precision),
      unit_test(test_picks_are_never_made_again), unit_test(test_losses_of_all_layers_and_microbatches_count_once),
      unit_test(test_losses_of_routers_are_reported_apart), unit_test(test_evaluation_has_no_losses_of_routers))
