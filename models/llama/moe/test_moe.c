/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * Experts with shared ones, groups and a bias: what is built, counted and refused, published sizes, and every layout
 * against the serial run. */
#include "models/llama/moe/moe.h"
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "models/llama/llama.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* DeepSeek-V3's experts in every layer but the first: 8 of 20 units in 4 groups, of which a token sees 2. */
static struct plan routed_plan(void) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.arch = &model_moe;
    p.layers = 4, p.hidden = 32;
    m->ffn = 24, m->tie = 0;
    m->experts = 8, m->experts_per_token = 3, m->moe_group = 2, m->capacity = 1;
    m->aux_loss = 0.05, m->z_loss = 0.01;
    struct moe_options *o = &((struct llama_options *)plan_own(&p, &model_llama.options))->moe;
    o->expert_ffn = 20, o->router_scores = 1, o->router_groups = 4, o->router_groups_per_token = 2;
    o->router_scale = 1.5, o->shared_experts = 2;
    strcpy(o->expert_layers, "deee");
    return p;
}

static struct moe_options *of(struct plan *p) {
    return &((struct llama_options *)plan_own(p, &model_llama.options))->moe;
}

/* Softmax, as DeepSeek-V2: gates are not divided. */
static struct plan softmax_plan(void) {
    struct plan p = routed_plan();
    of(&p)->router_scores = 0, of(&p)->router_norm = 0, of(&p)->shared_experts = 1;
    model_options(&p)->capacity = 0;
    return p;
}

/* ---- what is built ---- */

static const struct step *step_named(const struct program *p, const char *name) {
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->slots[p->steps[i].out[0]].name, name)) return &p->steps[i];
    fail_msg("no step is called %s", name);
    return NULL;
}

TEST(test_routers_have_the_options_rule) {
    struct plan p = routed_plan();
    struct program program;
    program_init(&program);
    assert_ok(llama_build(&p, &program));
    const struct step *route = step_named(&program, "h1.route"), *up = step_named(&program, "h1.shared.up");
    assert_true(route->moe.sigmoid && !route->moe.raw && route->moe.scale == 1.5);
    assert_true(route->moe.sets == 4 && route->moe.sets_per_token == 2);
    assert_string_equal(program.params[route->weight[0]].name, "h1.router.bias");
    assert_true(program.params[route->weight[0]].precise);
    assert_int_equal(type_n(&program.params[up->weight[0]].type), 2 * 40 * 32);
    assert_string_equal(program.slots[up->in[0]].name, "h1.norm2");
    assert_string_equal(program.slots[step_named(&program, "h1.res2")->in[1]].name, "h1.res.shared");
    program_fini(&program);
}

/* Both plans, by hand: the router, the experts, the shared ones; the bias of sigmoids. */
TEST(test_params_of_shared_experts_are_counted) {
    for (int i = 0; i < 2; i++) {
        struct plan p = i ? softmax_plan() : routed_plan();
        struct program program;
        program_init(&program);
        assert_ok(llama_build(&p, &program));
        assert_int_equal(program_n_params(&program), llama_n_params(&p));
        assert_int_equal(moe_matrices(&p, of(&p), 8), (8 + (i ? 1 : 2)) * 3 * 20 * 32 + 8 * 32);
        assert_int_equal(moe_biases(&p, of(&p)), i ? 0 : 8);
        program_fini(&program);
    }
}

static enum status preset(struct plan *p, const char *name) {
    struct options *o;
    TRY(recipe_options_create(NULL, p, &o));
    snprintf(p->model, sizeof p->model, "%s", name);
    enum status status = recipe_preset(p, o);
    options_destroy(&o);
    p->device = PLAN_DEVICE_CPU;
    return status == OK ? plan_settle(p, 1) : status;
}

/* The published weights, in the files' numbers (half the total_size of V2's indices, which are bf16; the biases count,
 * and V3's layer that predicts the second token ahead does not). "2.4B", "21B", "37B" and "14B" activated; the last is
 * with the embedding. */
TEST(test_published_sizes_have_the_published_params) {
    static const struct { const char *name; int64_t params; double active; } cases[] = {
        {"deepseek-v2-lite", 15706484224, 2.4}, {"deepseek-v2", 235741434880, 21}, {"deepseek-v3", 671026419200, 37},
        {"dots.llm1", 142774381696, 13.4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan p;
        assert_ok(preset(&p, cases[i].name));
        assert_ptr_equal(p.arch, &model_moe);
        assert_true(llama_n_params(&p) == cases[i].params);
        assert_close((double)llama_matmul_params(&p) / 1e9, cases[i].active, 0.5);
    }
}

static enum status build_with(const char *option, double value) {
    struct plan p = routed_plan();
    struct program program;
    struct moe_options *o = of(&p);
    if (!strcmp(option, "experts-off")) model_options(&p)->experts = 0;
    else if (!strcmp(option, "tp")) p.mesh.tp = (int64_t)value;
    else if (!strcmp(option, "experts")) model_options(&p)->experts = (int64_t)value;
    else if (!strcmp(option, "router-groups")) o->router_groups = (int64_t)value;
    else plan_set_number(&p, option, (int64_t)value);
    program_init(&program);
    enum status status = llama_build(&p, &program);
    program_fini(&program);
    return status;
}

TEST(test_impossible_routers_are_refused) {
    assert_ok(build_with("router-groups-per-token", 2));
    assert_fails(build_with("experts-off", 0), E_CONFIG, "router-scores=sigmoid", "shared-experts=2", "give --experts");
    assert_fails(build_with("router-groups", 3), E_CONFIG, "router-groups=3", "experts=8", "use one of 1, 2, 4, 8");
    assert_fails(build_with("router-groups-per-token", 5), E_CONFIG, "router-groups-per-token=5", "use at most 4");
    assert_fails(build_with("router-groups-per-token", 1), E_CONFIG, "groups of 2 experts", "experts-per-token=3",
                 "use --router-groups-per-token 2");
    assert_fails(build_with("tp", 16), E_CONFIG, "tp=16", "24", "use one of 1, 2");
    assert_fails(build_with("post-norm", 1), E_CONFIG, "shared-experts=2", "--shared-experts 0");
}

/* The bias has the loads as its gradient. Its norm is not the model's, and no optimizer moves it. */
TEST(test_the_bias_is_apart) {
    struct reference r;
    struct plan p = routed_plan();
    int biases = 0;
    double squares = 0, loads = 0;
    assert_ok(reference_init(&r, &p));
    for (int i = 0; i < r.run.program.n_params; i++) {
        const struct param *w = &r.run.program.params[i];
        bool is_bias = strstr(w->name, ".router.bias") != NULL;
        biases += is_bias;
        for (int64_t k = 0; k < type_n(&w->type); k++) {
            if (is_bias) assert_close(r.weight[i][k], 0, 0);
            *(is_bias ? &loads : &squares) += r.grad[0][i][k] * r.grad[0][i][k];
        }
    }
    assert_true(biases == 3 && loads > 0);
    assert_close(r.norm[0], sqrt(squares), 1e-12 * r.norm[0]);
    reference_fini(&r);
}

/* ---- the bias moves ---- */
static void set_rate(struct plan *p, double rate) {
    void *at;
    assert_non_null(plan_option(p, "router-bias-rate", &at));
    *(double *)at = rate;
}

/* The rate is so large that the bias changes choices of the second step. */
static struct plan moved_plan(void) {
    struct plan p = routed_plan();
    set_rate(&p, 0.05);
    return p;
}

/* After each step b = b - rate sign(load - mean), whatever clipping, weight decay and lr are. The load is that of the
 * 16 x 8 tokens of the batch, which have 3 experts each. */
TEST(test_the_bias_moves_against_the_load_of_the_batch) {
    struct reference r;
    struct plan p = moved_plan();
    int up = 0, down = 0;
    p.weight_decay = 0.5, p.clip = 0.01;
    assert_ok(reference_init(&r, &p));
    for (int i = 0; i < r.run.program.n_params; i++) {
        const struct param *w = &r.run.program.params[i];
        double moved[8] = {0};
        if (!strstr(w->name, ".router.bias")) continue;
        for (int step = 0; step < PARITY_STEPS; step++) {
            double choices = 0;
            for (int e = 0; e < 8; e++) {
                double excess = r.grad[step][i][e], load = (excess + 16 * 8 * 3) / 8;
                assert_true(load == floor(load) && load >= 0);
                moved[e] -= 0.05 * ((excess > 0) - (excess < 0));
                choices += load;
            }
            assert_close(choices, 16 * 8 * 3, 0);
        }
        for (int e = 0; e < 8; e++) {
            assert_close(r.weight[i][e], moved[e], 2 * 0x1p-53);       /* three sums below 1/4 */
            up += moved[e] > 0, down += moved[e] < 0;
        }
    }
    assert_true(up > 0 && down > 0);
    reference_fini(&r);
}

/* A weight that is no number makes the norm none; then no weight and no bias changes. */
TEST(test_a_refused_step_moves_no_bias) {
    struct run r;
    struct plan p = moved_plan();
    p.mesh.dp = comm_world_size(), p.micro_batch = 1;
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    assert_ok(run_step(&r));
    const struct param *bias = NULL;
    for (int i = 0; i < r.program.n_params; i++)
        if (!strcmp(r.program.params[i].name, "h2.router.bias")) bias = &r.program.params[i];
    double before[8];
    memcpy(before, bias->weight, sizeof before);
    ((double *)r.program.params[r.program.n_params - 1].weight)[0] = NAN;
    assert_fails(run_step(&r), E_NUMERIC, "of step 2", "no weight was changed");
    assert_memory_equal(before, bias->weight, sizeof before);
    run_destroy(&r);
}

static enum status compiled(struct plan p, const char *option, double value) {
    struct run r = {0};
    if (option) plan_set_number(&p, option, (int64_t)value);
    enum status status = plan_settle(&p, 0);
    if (status == OK) status = run_compile(&r, &train_recipe, &p, 0, NULL, NULL);
    for (int i = 0; status == OK && i < r.program.n_params; i++) {
        const struct param *w = &r.program.params[i];
        if (!strstr(w->name, ".router.bias")) continue;
        assert_true(p.precision == PRECISION_FP64 || (w->grad_type.dtype == FP32 && w->type.dtype == FP32));
        assert_true(!w->decay && !param_array(w, "moment1"));
    }
    run_destroy(&r);
    return status;
}

TEST(test_a_bias_that_cannot_move_is_refused) {
    struct plan p = moved_plan(), dense = parity_plan();
    p.precision = PRECISION_BF16, p.mesh.dp = 2, p.micro_batch = 2;
    assert_ok(compiled(p, NULL, 0));
    assert_fails(compiled(p, "servers", 1), E_CONFIG, "router-bias-rate=0.05", "servers=1", "use servers 0");
    assert_fails(compiled(p, "local-steps", 4), E_CONFIG, "router-bias-rate=0.05", "local-steps=4",
                 "use local-steps 0");
    plan_set_number(&p, "zero", 1);
    assert_fails(compiled(p, "offload", 1), E_CONFIG, "router-bias-rate", "use offload none");
    plan_set_number(&p, "zero", 0);
    grad_options(&p)->codec = CODEC_INT8;
    assert_fails(compiled(p, NULL, 0), E_CONFIG, "router-bias-rate=0.05", "grad-codec=int8",
                 "use grad-codec none");
    grad_options(&p)->codec = CODEC_NONE;
    set_rate(&dense, 0.05);
    assert_fails(compiled(dense, NULL, 0), E_CONFIG, "router-bias-rate=0.05", "arch=gpt", "router-scores sigmoid");
    p = softmax_plan();
    set_rate(&p, 0.05);
    assert_fails(compiled(p, NULL, 0), E_CONFIG, "router-bias-rate=0.05", "arch=moe", "or router-bias-rate 0");
}

/* ---- parity ---- */
/* By SGD, as in tests/test_optimizers.c: no small divisor enlarges a rounding. Offload is refused. */
static void try_moved(struct layout_tally *t, struct plan p) {
    struct difference d = {0};
    plan_set_word(&p, "offload", "none", 0);
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = layout_compare(&p, t->reference, &d);
    bool ok = agree_all(status == OK && d.loss < 1e-12 && d.norm < 1e-12 && d.grad < 1e-12 && d.weight < 1e-12 &&
                        d.memory == 0 && d.wire < 1e-12 && d.padding == 0);
    if (!ok && comm_is_rank_0())
        fprintf(stderr, "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e\n", layout_name(&p),
                status_name(status), d.loss, d.norm, d.grad, d.weight, d.memory, d.wire);
    status_report();
    t->failed += !ok;
}

/* Shard the experts, with tp and sp, cp, pp, zero and recompute as far as the world has ranks. */
static void try_ep(struct layout_tally *t, layout_try *try) {
    static const struct { int ranks, ep, dp, tp, cp, pp, sp, zero, recompute; } layouts[] = {
        {2, 2, 2, 1, 1, 1, 0, 2, 0}, {2, 2, 1, 1, 2, 1, 0, 3, 0}, {2, 1, 1, 2, 1, 1, 1, 0, RECOMPUTE_FULL},
        {4, 4, 4, 1, 1, 1, 0, 3, RECOMPUTE_FULL}, {4, 2, 2, 2, 1, 1, 1, 1, 0}, {4, 2, 2, 1, 1, 2, 0, 2, 0},
        {4, 2, 1, 2, 2, 1, 1, 3, 0}, {8, 4, 2, 2, 2, 1, 1, 2, RECOMPUTE_FULL}, {8, 2, 2, 2, 1, 2, 0, 1, 0}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct plan p = t->reference->run.plan;
        if (layouts[i].ranks != comm_world_size()) continue;
        p.settled = false;
        p.mesh.ep = layouts[i].ep, p.mesh.dp = layouts[i].dp, p.mesh.tp = layouts[i].tp, p.mesh.cp = layouts[i].cp;
        p.mesh.pp = layouts[i].pp, p.micro_batch = 2;
        model_options(&p)->moe_packed = i % 2;
        plan_set_number(&p, "sp", layouts[i].sp);
        plan_set_number(&p, "zero", layouts[i].zero);
        recompute_options(&p)->kind = layouts[i].recompute;
        try(t, p);
    }
}

static bool take_all(const struct plan *p) { return p != NULL; }

static void try_layouts(struct plan serial) {
    static const struct layout_tries tries = {layout_try_settled, try_ep, take_all};
    assert_int_equal(layouts_differ(&serial, &tries), 0);
}

TEST(test_every_layout_of_sigmoids_and_shared_experts_equals_serial_fp64) { try_layouts(routed_plan()); }
TEST(test_every_layout_of_softmax_in_groups_equals_serial_fp64) { try_layouts(softmax_plan()); }
TEST(test_every_layout_of_a_moved_bias_equals_serial_fp64) {
    struct plan p = moved_plan();
    p.optimizer = OPTIMIZER_SGD, p.lr = 0.5, p.min_lr = 0.1;
    static const struct layout_tries tries = {try_moved, try_ep, NULL};
    assert_int_equal(layouts_differ(&p, &tries), 0);
}

TESTS(unit_test(test_routers_have_the_options_rule), unit_test(test_params_of_shared_experts_are_counted),
      unit_test(test_published_sizes_have_the_published_params), unit_test(test_impossible_routers_are_refused),
      unit_test(test_the_bias_is_apart),
      unit_test(test_every_layout_of_sigmoids_and_shared_experts_equals_serial_fp64),
      unit_test(test_every_layout_of_softmax_in_groups_equals_serial_fp64),
      unit_test(test_the_bias_moves_against_the_load_of_the_batch),
      unit_test(test_a_bias_that_cannot_move_is_refused), unit_test(test_a_refused_step_moves_no_bias),
      unit_test(test_every_layout_of_a_moved_bias_equals_serial_fp64))
