/* ranks: 1 2  more: 4  device: cpu  threads: 1
 *
 * Block-scaled recipes of fp8 equal the serial run with the same recipe in every layout, in fp64. */
#include "driver/recipe.h"
#include "lib/ops/fp8.h"
#include "lib/ops/linear.h"
#include "mixed_precision/fp8.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <float.h>

/* 32 divides 64 tokens, and the 64 or 128 channels that two or four ranks of tp have of qkv. */
static struct plan blocks_plan(enum fp8_recipe recipe) {
    struct plan p = parity_plan();
    int ranks = comm_world_size();
    fp8_options(&p)->on = true;
    fp8_options(&p)->recipe = recipe;
    fp8_options(&p)->history = 2;
    p.layers = 4;
    p.seq = 64;
    p.hidden = ranks > 2 ? 128 : 64;
    p.global_batch = 2 * ranks > 4 ? 2 * ranks : 4;
    p.micro_batch = 2;
    return p;
}

/* ---- layouts ---- */
static enum fp8_recipe recipe_at(int i) { return FP8_MXFP8 + i % (FP8_NVFP4 - FP8_MXFP8 + 1); }

/* Each recipe in four of the sixteen companies, which are other ones for each. */
static int try_recipe(enum fp8_recipe recipe, const struct reference *reference) {
    int failed = 0;
    for (int i = 0; i < N_COMPANIES; i++) {
        struct plan p = layout_in_company(blocks_plan(recipe), i);
        if (recipe_at(i) == recipe) failed += !layout_is_serial(&p, plan_settle(&p, comm_world_size()), reference);
    }
    return failed;
}

/* Zigzag pieces of cp are half as long as its contiguous ones: 16 tokens, a block of NVFP4. */
static int try_cp(enum fp8_recipe recipe, const struct reference *reference) {
    struct plan p = blocks_plan(recipe);
    if (comm_world_size() != 2) return 0;
    p.mesh.cp = 2;
    plan_set_word(&p, "cp-by", recipe == FP8_NVFP4 ? "ring" : "ulysses", 0);
    return !layout_is_serial(&p, plan_settle(&p, comm_world_size()), reference);
}

TEST(test_every_layout_with_block_scales_equals_serial_fp64) {
    for (enum fp8_recipe recipe = FP8_MXFP8; recipe <= FP8_NVFP4; recipe++) {
        struct plan serial = blocks_plan(recipe);
        struct reference reference;
        int failed = 0;
        enum status status = reference_init(&reference, &serial);
        if (agree_all(status == OK)) failed = try_recipe(recipe, &reference) + try_cp(recipe, &reference);
        reference_fini(&reference);
        assert_ok(status);
        assert_int_equal(failed, 0);
    }
}

TEST(test_layouts_that_mix_operands_equal_serial_fp64) {
    struct plan serial = blocks_plan(FP8_NVFP4);
    struct reference reference;
    int failed = 0;
    fp8_options(&serial)->hadamard = true;
    enum status status = reference_init(&reference, &serial);
    struct plan plain = blocks_plan(FP8_NVFP4);
    struct difference d = {0};
    if (comm_world_size() == 1) {                                    /* the option changes gradients */
        assert_ok(plan_settle(&plain, 1));
        assert_ok(layout_compare(&plain, &reference, &d));
        assert_true(d.first_loss == 0 && d.first_grad > 1e-3);
    }
    for (int i = 1; i < N_COMPANIES && agree_all(status == OK); i += N_COMPANIES / 2) {
        struct plan p = layout_in_company(serial, i);
        failed += !layout_is_serial(&p, plan_settle(&p, comm_world_size()), &reference);
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_int_equal(failed, 0);
}

/* ---- rounding ---- */
static double first_grad(struct plan p, const struct reference *plain) {
    struct difference d = {0};
    assert_ok(plan_settle(&p, 1));
    assert_ok(layout_compare(&p, plain, &d));
    assert_true(d.first_loss > 1e-7 && d.loss < 3e-2);
    return d.first_grad;
}

/* A run with a recipe differs from one without, and more with fewer bits. Each option changes the numbers. */
TEST(test_recipes_round_by_their_bits) {
    if (comm_world_size() > 1) skip();
    struct plan plain = blocks_plan(FP8_DELAYED), p;
    struct reference reference;
    double grad[FP8_NVFP4 + 1];
    fp8_options(&plain)->on = false;
    assert_ok(reference_init(&reference, &plain));
    for (enum fp8_recipe recipe = FP8_MXFP8; recipe <= FP8_NVFP4; recipe++)
        grad[recipe] = first_grad(blocks_plan(recipe), &reference);
    p = blocks_plan(FP8_MXFP4), fp8_options(&p)->stochastic = false;
    double nearest = first_grad(p, &reference);
    p = blocks_plan(FP8_MXFP4), fp8_options(&p)->block_scale = FP8_SCALE_DOWN;
    double down = first_grad(p, &reference);
    reference_fini(&reference);
    assert_true(grad[FP8_MXFP8] > 1e-3 && grad[FP8_MXFP8] < grad[FP8_MXFP8_E5M2]);
    assert_true(grad[FP8_MXFP8_E5M2] < grad[FP8_MXFP4] && grad[FP8_NVFP4] < 1.5 * grad[FP8_MXFP4]);
    assert_true(nearest != grad[FP8_MXFP4] && down != grad[FP8_MXFP4] && down != nearest);
}

/* ---- memory ---- */
static void check_kept(enum fp8_recipe recipe, double bytes) {
    struct plan p = blocks_plan(recipe);
    struct run r;
    int casts = 0;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    for (int i = 0; i < r.program.n_steps; i++) {
        const struct step *s = &r.program.steps[i];
        assert_false(r.program.blocks[s->block].is_layer && s->op == &op_linear);
        if (s->op != &op_cast_blocks) continue;
        const struct slot *slots = r.program.slots;
        int64_t kept = type_bytes(&slots[s->out[0]].type) + type_bytes(&slots[s->out[1]].type);
        assert_close((double)kept, bytes * (double)type_n(&slots[s->in[0]].type), 0);
        casts++;
    }
    assert_int_equal(casts, 4 * p.layers);
    run_destroy(&r);
}
TEST(test_inputs_are_kept_as_codes_and_scales) {
    check_kept(FP8_MXFP8, 1 + 1.0 / 32);
    check_kept(FP8_MXFP4, 0.5 + 1.0 / 32);
    check_kept(FP8_NVFP4, 0.5 + 1.0 / 16);
}

/* Only nvfp4 has something to agree on. */
TEST(test_only_scales_of_tensors_are_sent) {
    for (enum fp8_recipe recipe = FP8_DELAYED; recipe <= FP8_NVFP4; recipe++) {
        struct plan p = layout_in_company(blocks_plan(recipe), 0), plain = p;
        fp8_options(&plain)->on = false, fp8_options(&plain)->recipe = FP8_DELAYED;
        double bytes[2];
        for (int i = 0; i < 2; i++) {
            struct run r;
            struct plan *of = i ? &p : &plain;
            assert_ok(plan_settle(of, comm_world_size()));
            assert_ok(run_compile(&r, &train_recipe, of, 0, NULL, NULL));
            bytes[i] = r.bill.wire_bytes[AXIS_MESH];
            run_destroy(&r);
        }
        bool sends = comm_world_size() > 1 && (recipe == FP8_DELAYED || recipe == FP8_NVFP4);
        assert_int_equal(bytes[1] > bytes[0], sends);
    }
}

/* Its rule, of each layer: 16 numbers, 16 x 16 of a weight, draws for gradients. */
TEST(test_nvfp4_has_one_rounding_of_a_weight) {
    for (enum fp8_recipe recipe = FP8_MXFP8; recipe <= FP8_NVFP4; recipe++) {
        struct plan p = blocks_plan(recipe);
        struct run r;
        assert_ok(plan_settle(&p, 1));
        assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
        for (int i = 0; i < r.program.n_steps; i++) {
            const struct step *s = &r.program.steps[i];
            if (s->op->rule != RULE_BLOCKS) continue;
            assert_int_equal(s->blocks.square, recipe == FP8_NVFP4);
            assert_int_equal(s->blocks.operand.size, recipe == FP8_NVFP4 ? 16 : 32);
            assert_int_equal(s->blocks.stochastic, recipe >= FP8_MXFP4);
        }
        run_destroy(&r);
    }
}

/* ---- the scale of a tensor ---- */
/* In the first step it is 1. In the second it puts the largest weight of the first at 448 x 6. */
TEST(test_nvfp4_puts_the_largest_number_at_the_top) {
    if (comm_world_size() > 1) skip();
    struct plan p = blocks_plan(FP8_NVFP4);
    struct run r;
    int n = 0;
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < r.program.n_steps; i++) {
            const struct step *s = &r.program.steps[i];
            if (s->op != &op_linear_blocks) continue;
            const struct fp8_rule *rule = &s->blocks.scales;
            const struct param *w = &r.program.params[s->weight[0]];
            double most = 0;
            for (int64_t k = 0; k < type_n(&w->type); k++) most = fmax(most, fabs(dtype_get(w->weight, FP64, k)));
            if (step == 0) assert_close(rule->scale[rule->first + FP8_W], 1, 0);
            assert_true(step == 0 || rule->scale[rule->first + FP8_W] > 1);
            if (step == 1) assert_close(rule->scale[rule->first + FP8_W] * most / (448 * 6), 1, 0.5);
            n++;
        }
        assert_ok(run_step(&r));
    }
    run_destroy(&r);
    assert_int_equal(n, 2 * 4 * p.layers);
}

/* ---- refusals ---- */
static void check_refused(struct plan p, int ranks, const char *what, const char *remedy) {
    struct run r;
    assert_ok(plan_settle(&p, ranks));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, what, remedy);
    run_destroy(&r);
}
static void check_compiles(struct plan p, int ranks) {
    struct run r;
    assert_ok(plan_settle(&p, ranks));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    run_destroy(&r);
}

TEST(test_blocks_across_ranks_are_refused) {
    struct plan p = blocks_plan(FP8_MXFP8), n = blocks_plan(FP8_NVFP4);
    p.hidden = n.hidden = 64;
    p.mesh.tp = n.mesh.tp = 4;                                       /* qkv: 16 of 64 outputs for each of q, k and v */
    check_refused(p, 4, "blocks of 32 numbers along outputs", "fp8-recipe delayed");
    check_compiles(n, 4);
    p.mesh.tp = 1, p.mesh.cp = 2;
    plan_set_word(&p, "cp-by", "ring", 0);                                 /* two pieces of 16 tokens */
    check_refused(p, 2, "blocks of 32 numbers along tokens", "fewer ranks");
    plan_set_word(&p, "cp-by", "ulysses", 0);
    check_compiles(p, 2);
    p.mesh.cp = 1, p.seq = 48;
    check_refused(p, 1, "blocks of 32 numbers along tokens", "fp8-recipe delayed");
    p.seq = 64, p.hidden = 48;
    check_refused(p, 1, "blocks of 32 numbers along inputs", "fp8-recipe delayed");
}

TEST(test_recipes_without_fp8_and_in_16_bits_with_a_loss_scale_are_refused) {
    struct plan p = blocks_plan(FP8_MXFP4);
    fp8_options(&p)->on = false;
    check_refused(p, 1, "fp8-recipe=mxfp4", "use fp8 on");
    p = blocks_plan(FP8_MXFP4);
    p.precision = PRECISION_FP16;
    check_refused(p, 1, "precision=fp16", "bf16");
    p = blocks_plan(FP8_MXFP8);
    fp8_options(&p)->hadamard = true;
    check_refused(p, 1, "fp8-recipe=mxfp8", "use fp8-recipe nvfp4, or fp8-hadamard off");
}

TESTS(unit_test(test_every_layout_with_block_scales_equals_serial_fp64), unit_test(test_recipes_round_by_their_bits),
      unit_test(test_layouts_that_mix_operands_equal_serial_fp64),
      unit_test(test_inputs_are_kept_as_codes_and_scales), unit_test(test_only_scales_of_tensors_are_sent),
      unit_test(test_nvfp4_has_one_rounding_of_a_weight), unit_test(test_nvfp4_puts_the_largest_number_at_the_top),
      unit_test(test_blocks_across_ranks_are_refused),
      unit_test(test_recipes_without_fp8_and_in_16_bits_with_a_loss_scale_are_refused))
