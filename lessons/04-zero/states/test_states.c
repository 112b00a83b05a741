/* ranks: 1  device: cpu
 *
 * Formulas compared with the paper's numbers, with a search, and with the planner's bytes of a rank of a real GPT. */
#include "lessons/04-zero/states/states.h"

#include "driver/recipe.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"

static const struct states FP32_ADAM = {4, 4, 8}, MIXED = {2, 2, 12};

/* Rajbhandari et al. 2020, figure 1: 7.5e9 parameters on 64 ranks, in 1e9 bytes. */
TEST(test_states_of_the_papers_example) {
    static const double gb[] = {120, 31.40625, 16.640625, 1.875};
    for (int stage = 0; stage <= 3; stage++) {
        double bytes = NAN;
        assert_ok(states_per_param(stage, 64, MIXED, &bytes));
        assert_close(7.5 * bytes, gb[stage], 1e-12);
        for (int n = 1; n <= 1000; n += 7) {
            assert_ok(states_per_param(stage, n, FP32_ADAM, &bytes));
            assert_close(bytes, zero_bytes_per_param(stage, n, 4, 4, 8), 1e-12);
        }
    }
}

/* An optimizer that is drawn in each run: 1 to 4 bytes of a weight and of a gradient, 0 to 16 of states. */
static struct states drawn_states(void) {
    return (struct states){(double)test_drawn(1, 4), (double)test_drawn(1, 4), (double)test_drawn(0, 16)};
}

TEST(test_states_of_any_optimizer) {
    for (int i = 0; i < 100; i++) {
        struct states x = drawn_states();
        int stage = (int)test_drawn(0, 3), n = (int)test_drawn(1, 300);
        double bytes = NAN, params = NAN, right = zero_bytes_per_param(stage, n, x.weight, x.grad, x.optim);
        assert_ok(states_per_param(stage, n, x, &bytes));
        if (!(fabs(bytes - right) <= 1e-12))
            fail_msg("%g, %g and %g bytes of weight, gradient and states, stage %d, %d ranks: you say %.10g bytes a "
                     "parameter, right is %.10g", x.weight, x.grad, x.optim, stage, n, bytes, right);
        assert_ok(states_largest_model(stage, n, x, 40e9, &params));
        if (!(fabs(params * right - 40e9) <= 1))
            fail_msg("%g, %g and %g bytes of weight, gradient and states, stage %d, %d ranks, 40e9 bytes: you say "
                     "%.10g parameters, right is %.10g", x.weight, x.grad, x.optim, stage, n, params, 40e9 / right);
    }
}

/* GPUs of 80e9 bytes, from one rank to 64. */
TEST(test_states_largest_model_just_fits) {
    for (int stage = 0; stage <= 3; stage++)
        for (int n = 1; n <= 64; n *= 4) {
            double params = NAN;
            assert_ok(states_largest_model(stage, n, MIXED, 80e9, &params));
            assert_close(params * zero_bytes_per_param(stage, n, 2, 2, 12), 80e9, 1);
        }
}

/* Try 1, 2, 3, ... ranks. The test's quotients are exact, or far from whole numbers. */
static int search(int stage, double params, struct states x, double room) {
    for (int n = 1; n <= 4096; n++)
        if (params * zero_bytes_per_param(stage, n, x.weight, x.grad, x.optim) <= room) return n;
    return 0;
}

TEST(test_states_fewest_ranks_is_the_first_that_fits) {
    static const double params[] = {1 << 20, 5 << 20, 16 << 20, 100 << 20},
    rooms[] = {1 << 20, 16 << 20, 64 << 20, 80 << 20, 2e9};
    for (int stage = 0; stage <= 3; stage++)
        for (int p = 0; p < 4; p++)
            for (int r = 0; r < 5; r++) {
                int n = -1;
                assert_ok(states_fewest_ranks(stage, params[p], MIXED, rooms[r], &n));
                assert_int_equal(n, search(stage, params[p], MIXED, rooms[r]));
            }
}

/* 1000 bytes on 4 ranks: an all-gather or a reduce-scatter sends 750. */
TEST(test_states_sent_counts_gathers_and_scatters) {
    static const struct { int stage, n, m; double bytes; } cases[] = {
        {0, 4, 1, 1500}, {0, 4, 3, 1500}, {1, 4, 1, 1500}, {1, 4, 3, 1500}, {2, 4, 1, 1500}, {2, 4, 3, 3000},
        {3, 4, 1, 2250}, {3, 4, 3, 6750}, {0, 1, 2, 0}, {3, 1, 2, 0}, {1, 8, 1, 1750}, {3, 2, 1, 1500}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double bytes = NAN;
        assert_ok(states_sent(cases[i].stage, cases[i].n, cases[i].m, 1000, &bytes));
        assert_close(bytes, cases[i].bytes, 1e-9);
    }
}

/* ---- the planner: a GPT with 24 channels and 131 tokens, which most numbers of ranks do not divide ---- */
static struct plan small_plan(int dp, int zero, int precision) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.hidden = 24;
    plan.mesh.dp = dp;
    zero_options(&plan)->stage = zero;
    plan.global_batch = dp;
    plan.micro_batch = 1;
    plan.precision = precision;
    return plan;
}

/* Bytes of this rank after zero's rewrite, from each param's elements of weight, gradient and states. */
static int64_t planned_bytes(const struct run *r, struct states x, int64_t *size) {
    int64_t bytes = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        size[i] = type_n(&w->type);
        bytes += (w->weight_residence == RESIDENT_OWN ? w->shard_n : w->padded_n) * (int64_t)x.weight;
        bytes += (w->grad_residence == RESIDENT_OWN ? w->shard_n : w->padded_n) * (int64_t)x.grad;
        bytes += param_state_n(w) * (int64_t)x.optim;
    }
    return bytes;
}

static void check_rank(int dp, int zero, int precision, struct states x) {
    struct run r;
    struct plan plan = small_plan(dp, zero, precision);
    int64_t size[MAX_PARAMS], bytes = -1;
    assert_ok(plan_settle(&plan, dp));
    assert_ok(run_compile(&r, &train_recipe, &plan, dp - 1, NULL, NULL));
    int64_t planned = planned_bytes(&r, x, size);
    assert_ok(states_of_rank(zero, dp, x, size, r.program.n_params, &bytes));
    assert_int_equal(bytes, planned);
    /* the planner's roles have these bytes, plus less than 64 bytes of alignment per array */
    const int64_t *planned_for = r.memory.bytes[TIER_DEVICE];
    int64_t roles = planned_for[ROLE_PARAM] + planned_for[ROLE_GRAD] + planned_for[ROLE_OPTIM];
    assert_in_range(roles, bytes, bytes + 5 * 64 * r.program.n_params);
    run_destroy(&r);
}

TEST(test_states_of_a_rank_are_the_planners) {
    for (int zero = 1; zero <= 3; zero++)
        for (int dp = 1; dp <= 8; dp++) {
            check_rank(dp, zero, PRECISION_FP32, FP32_ADAM);
            check_rank(dp, zero, PRECISION_BF16, MIXED);
        }
}

TESTS(unit_test(test_states_of_the_papers_example), unit_test(test_states_of_any_optimizer),
      unit_test(test_states_largest_model_just_fits),
      unit_test(test_states_fewest_ranks_is_the_first_that_fits),
      unit_test(test_states_sent_counts_gathers_and_scatters), unit_test(test_states_of_a_rank_are_the_planners))
