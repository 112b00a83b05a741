/* ranks: 1  device: cpu
 *
 * Owners and bytes of shards. Compiling is pure, so one process checks every rank of a layout. */
#include "driver/recipe.h"
#include "mixed_precision/mixed_precision.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <stdlib.h>

enum { MOST_ELEMENTS = 131 * 24 };

/* The sizes of params are multiples of 24, so that dp = 5 and dp = 7 leave remainders. */
static struct plan small_plan(int dp, int tp, int pp, int zero) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.hidden = 24;
    plan.mesh.dp = dp;
    plan.mesh.tp = tp;
    plan.mesh.pp = pp;
    zero_options(&plan)->stage = zero;
    plan.global_batch = 2 * dp;
    plan.micro_batch = 1;
    return plan;
}

static void compile(struct run *r, const struct plan *plan, int rank) {
    struct plan settled = *plan;
    assert_ok(plan_settle(&settled, plan_ranks(plan)));
    assert_ok(run_compile(r, &train_recipe, &settled, rank, NULL, NULL));
}

/* ---- shards ---- */
/* Over the replicas of one shard of the model, every element is owned exactly once, and padding never. */
static void check_shards(const struct run *replicas, int dp, int param) {
    int owners[MOST_ELEMENTS] = {0};
    int64_t n = type_n(&replicas[0].program.params[param].type);
    for (int d = 0; d < dp; d++) {
        const struct param *w = &replicas[d].program.params[param];
        assert_int_equal(w->padded_n, w->shard_n * dp);
        assert_true(w->padded_n >= n && w->padded_n < n + dp);
        assert_in_range(w->own_n, 0, w->shard_n);
        assert_int_equal(w->own_first, w->shard_n * d);
        for (int64_t i = 0; i < w->own_n; i++) {
            assert_true(w->own_first + i < n);
            owners[w->own_first + i]++;
        }
    }
    for (int64_t i = 0; i < n; i++) assert_int_equal(owners[i], 1);
}

TEST(test_zero_shards_cover_every_element_once) {
    int undivided = 0;
    for (int zero = 1; zero <= 3; zero++)
        for (int dp = 1; dp <= 7; dp++) {
            struct run replicas[7];
            struct plan plan = small_plan(dp, 1, 1, zero);
            for (int d = 0; d < dp; d++) compile(&replicas[d], &plan, d);
            for (int i = 0; i < replicas[0].program.n_params; i++) {
                check_shards(replicas, dp, i);
                undivided += type_n(&replicas[0].program.params[i].type) % dp != 0;
            }
            for (int d = 0; d < dp; d++) run_destroy(&replicas[d]);
        }
    assert_true(undivided > 0);
}

/* Over the whole mesh: every element of the model is updated somewhere, and counts in the norm on exactly one rank. */
static void tally(const struct run *r, int (*updated)[MOST_ELEMENTS], int (*counted)[MOST_ELEMENTS]) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t e = 0; e < w->own_n && w->present; e++) {
            int64_t global = shape_global_index(&w->type.shape, w->own_first + e);
            if (global < 0) continue;
            updated[i][global]++;
            counted[i][global] += w->counted;
        }
    }
}

static void check_mesh(const struct plan *plan) {
    int(*updated)[MOST_ELEMENTS] = calloc(MAX_PARAMS, sizeof *updated),
    (*counted)[MOST_ELEMENTS] = calloc(MAX_PARAMS, sizeof *counted);
    int64_t n[MAX_PARAMS], n_params = 0;
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        struct run r;
        compile(&r, plan, rank);
        tally(&r, updated, counted);
        n_params = r.program.n_params;
        for (int i = 0; i < n_params; i++) n[i] = shape_global_n(&r.program.params[i].type.shape);
        run_destroy(&r);
    }
    for (int i = 0; i < n_params; i++)
        for (int64_t e = 0; e < n[i]; e++) {
            assert_true(updated[i][e] >= 1);
            assert_int_equal(counted[i][e], 1);
        }
    free(updated);
    free(counted);
}

TEST(test_zero_counts_every_element_of_the_model_once) {
    for (int zero = 1; zero <= 3; zero++) {
        struct plan plan = small_plan(3, 2, 2, zero);
        plan.seq = 8;
        for (int sp = 0; sp <= 1; sp++) plan_set_number(&plan, "sp", sp), check_mesh(&plan);
    }
}

/* ---- residences ---- */
TEST(test_zero_stage_says_what_is_divided) {
    for (int zero = 1; zero <= 3; zero++) {
        struct run r;
        struct plan plan = small_plan(4, 1, 1, zero);
        compile(&r, &plan, 1);
        for (int i = 0; i < r.program.n_params; i++) {
            const struct param *w = &r.program.params[i];
            assert_int_equal(param_state_n(w), w->shard_n);
            assert_int_equal(w->grad_residence, zero >= 2 ? RESIDENT_OWN : RESIDENT_WHOLE);
            assert_int_equal(w->weight_residence, zero >= 3 ? RESIDENT_OWN : RESIDENT_WHOLE);
            assert_true(w->state_tier == TIER_DEVICE && w->weight_tier == TIER_DEVICE);
        }
        run_destroy(&r);
    }
}

/* ---- model states, byte for byte ---- */
/* Check that an array begins at the first aligned offset from *end on, and set *end to its end. @return bytes */
static int64_t walk(int64_t *end, int64_t offset, int64_t bytes) {
    assert_int_equal(offset, arena_align(*end));
    *end = offset + bytes;
    return bytes;
}

/* weight, grad: bytes an element. states: arrays, with 4 bytes an element (fp64: 8) */
struct precision { int plan, grad_fp32; int64_t weight, grad; int states; };

/* Every array is at the offset that follows from the formula's bytes, and its role has no other array. So a role has
 * the formula's bytes and alignment gaps. */
static void check_states(const struct run *r, const struct precision *x) {
    int64_t param = 0, grad = 0, optim = 0, sum = 0, N = r->plan.mesh.dp, zero = zero_options(&r->plan)->stage,
            state_size = x->plan == PRECISION_FP64 ? 8 : 4;
    double formula = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present) continue;
        int64_t shard = (type_n(&w->type) + N - 1) / N, whole = shard * N;
        sum += walk(&param, w->arrays[ARRAY_WEIGHT].offset, (zero >= 3 ? shard : whole) * x->weight);
        sum += walk(&grad, param_grad_offset(w), (zero >= 2 ? shard : whole) * x->grad);
        sum += walk(&optim, w->arrays[ARRAY_STATE].offset, shard * state_size);
        sum += walk(&optim, w->arrays[ARRAY_STATE + 1].offset, shard * state_size);
        if (x->states == 3) sum += walk(&optim, w->arrays[ARRAY_MASTER].offset, shard * state_size);
        formula += (double)whole * zero_bytes_per_param((int)zero, N, (double)x->weight, (double)x->grad,
                                                        (double)(x->states * state_size));
    }
    assert_close((double)sum, formula, formula * 1e-12);
    assert_int_equal(r->memory.bytes[TIER_DEVICE][ROLE_PARAM], param);
    assert_int_equal(r->memory.bytes[TIER_DEVICE][ROLE_GRAD], grad);
    assert_int_equal(r->memory.bytes[TIER_DEVICE][ROLE_OPTIM] + r->memory.bytes[TIER_HOST][ROLE_OPTIM], optim);
}

TEST(test_zero_model_states_are_the_papers_formulas) {
    static const struct precision precisions[] = {
        {PRECISION_FP64, 0, 8, 8, 2}, {PRECISION_FP32, 0, 4, 4, 2}, {PRECISION_BF16, 0, 2, 2, 3},
        {PRECISION_FP16, 0, 2, 2, 3}, {PRECISION_BF16, 1, 2, 4, 3}};
    for (int k = 0; k < 5; k++)
        for (int zero = 1; zero <= 3; zero++)
            for (int dp = 1; dp <= 8; dp++) {
                struct plan plan = small_plan(dp, 2, 2, zero);
                struct run r;
                plan.precision = precisions[k].plan;
                mixed_precision_options(&plan)->grad_fp32 = precisions[k].grad_fp32;
                compile(&r, &plan, plan_ranks(&plan) - 1);
                check_states(&r, &precisions[k]);
                run_destroy(&r);
            }
}

/* In 16 bits with fp32 states: 2 + 2 + 12 bytes. (driver/show/test_show_mesh.c has the paper's table.) */
TEST(test_zero_formulas_in_16_bits) {
    for (int64_t n = 1; n <= 1024; n *= 2) {
        double N = (double)n;
        assert_close(zero_bytes_per_param(0, n, 2, 2, 12), 16, 0);
        assert_close(zero_bytes_per_param(1, n, 2, 2, 12), 4 + 12 / N, 0);
        assert_close(zero_bytes_per_param(2, n, 2, 2, 12), 2 + 14 / N, 0);
        assert_close(zero_bytes_per_param(3, n, 2, 2, 12), 16 / N, 0);
    }
}

/* ---- offload ---- */
static void compile_offloaded(struct run *r, int zero, int offload) {
    struct plan plan = small_plan(4, 1, 1, zero);
    zero_options(&plan)->offload = offload;
    compile(r, &plan, 3);
}

/* Arrays that move to the host have the same bytes there, and none on the device. All other arrays stay. */
TEST(test_zero_offload_moves_bytes_to_the_host) {
    for (int zero = 1; zero <= 3; zero++)
        for (int offload = OFFLOAD_OPTIMIZER; offload <= (zero == 3 ? OFFLOAD_PARAMS : OFFLOAD_OPTIMIZER); offload++) {
            struct run stays, moved;
            compile_offloaded(&stays, zero, OFFLOAD_NONE);
            compile_offloaded(&moved, zero, offload);
            for (enum role role = 0; role < N_ROLES; role++) {
                bool moves = role == ROLE_OPTIM || (role == ROLE_GRAD && zero >= 2) ||
                             (role == ROLE_PARAM && offload == OFFLOAD_PARAMS);
                assert_int_equal(stays.memory.bytes[TIER_HOST][role], 0);
                int64_t bytes = stays.memory.bytes[TIER_DEVICE][role];
                assert_int_equal(moved.memory.bytes[TIER_HOST][role], moves ? bytes : 0);
                assert_int_equal(moved.memory.bytes[TIER_DEVICE][role], moves ? 0 : bytes);
            }
            assert_true(moved.memory.bytes[TIER_HOST][ROLE_OPTIM] > 0);
            run_destroy(&stays);
            run_destroy(&moved);
        }
}

/* ---- wanted, refused ---- */
TEST(test_zero_is_wanted_with_a_stage_or_offload) {
    struct plan plan = small_plan(2, 1, 1, 0);
    assert_false(technique_zero.wanted(&plan));
    for (zero_options(&plan)->stage = 1; zero_options(&plan)->stage <= 3; zero_options(&plan)->stage++)
        assert_true(technique_zero.wanted(&plan));
    zero_options(&plan)->stage = 0;
    zero_options(&plan)->offload = OFFLOAD_OPTIMIZER;
    assert_true(technique_zero.wanted(&plan));                       /* refused, not ignored */
}

TEST(test_zero_refuses_offload_of_what_is_not_divided) {
    struct plan plan = small_plan(2, 1, 1, 0);
    zero_options(&plan)->offload = OFFLOAD_OPTIMIZER;
    assert_fails(technique_zero.check(&plan), E_CONFIG, "zero=0", "use zero 1, 2 or 3");
    zero_options(&plan)->offload = OFFLOAD_PARAMS;
    for (zero_options(&plan)->stage = 1; zero_options(&plan)->stage <= 2; zero_options(&plan)->stage++)
        assert_fails(technique_zero.check(&plan), E_CONFIG, "offload=params",
                     zero_options(&plan)->stage == 1 ? "zero=1" : "zero=2", "use zero 3", "offload optimizer");
    zero_options(&plan)->stage = 3;
    assert_ok(technique_zero.check(&plan));
    zero_options(&plan)->offload_to = OFFLOAD_TO_DISK;
    assert_fails(technique_zero.check(&plan), E_CONFIG, "needs a folder", "--offload-path");
    snprintf(offload_options(&plan)->path, sizeof offload_options(&plan)->path, "/tmp");
    assert_ok(technique_zero.check(&plan));
    zero_options(&plan)->offload = OFFLOAD_NONE;
    assert_fails(technique_zero.check(&plan), E_CONFIG, "offload-to=disk", "offload=none", "use offload optimizer");
}

/* dp yields to zero, so that only zero reduces gradients. */
TEST(test_zero_takes_the_sum_from_dp) {
    struct run r;
    struct plan plan = small_plan(2, 1, 1, 1);
    compile(&r, &plan, 0);
    for (int i = 0; i < r.n_active; i++) assert_string_not_equal(r.active[i]->name, "dp");
    assert_ptr_equal(r.active[r.n_active - 1], &technique_zero);
    run_destroy(&r);
}

TESTS(unit_test(test_zero_shards_cover_every_element_once), unit_test(test_zero_counts_every_element_of_the_model_once),
      unit_test(test_zero_stage_says_what_is_divided), unit_test(test_zero_model_states_are_the_papers_formulas),
      unit_test(test_zero_formulas_in_16_bits), unit_test(test_zero_offload_moves_bytes_to_the_host),
      unit_test(test_zero_is_wanted_with_a_stage_or_offload),
      unit_test(test_zero_refuses_offload_of_what_is_not_divided), unit_test(test_zero_takes_the_sum_from_dp))
