/* ranks: 1  device: cpu */
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "mixed_precision/fp8.h"
#include "pp/pp.h"
#include "tests/test.h"
#include "tp/tp.h"
#include <stdlib.h>
#include <string.h>

/* ---- settling ---- */
static struct plan default_plan(void) {
    struct plan p;
    struct options *o;
    memset(&p, 0x55, sizeof p);
    assert_ok(recipe_options_create(NULL, &p, &o));
    options_destroy(&o);
    return p;
}

/* No option sets mesh.shard. If it kept the stack's bytes, ranks would be divided by garbage. */
TEST(test_a_plan_of_defaults_keeps_nothing_of_what_the_memory_held) {
    struct plan p, q;
    struct options *o;
    memset(&p, 0x55, sizeof p);
    memset(&q, 0xaa, sizeof q);
    assert_ok(recipe_options_create(NULL, &p, &o));
    options_destroy(&o);
    assert_ok(recipe_options_create(NULL, &q, &o));
    options_destroy(&o);
    assert_memory_equal(&p, &q, sizeof p);
    assert_int_equal(p.mesh.shard, 0);
}

static struct plan small_plan(void) {
    struct plan p = default_plan();
    p.layers = 4;
    p.hidden = 12;
    p.heads = 3;
    p.seq = 8;
    p.vocab = 17;
    p.global_batch = 24;
    return p;
}

TEST(test_dp_is_what_the_world_leaves) {
    struct plan p = small_plan();
    p.mesh.tp = 2;
    p.mesh.pp = 2;
    assert_ok(plan_settle(&p, 12));
    assert_int_equal(p.mesh.dp, 3);
    assert_int_equal(plan_ranks(&p), 12);
}

TEST(test_settling_twice_changes_nothing) {
    struct plan p = small_plan(), again;
    p.mesh.pp = 2;
    assert_ok(plan_settle(&p, 4));
    again = p;
    assert_ok(plan_settle(&again, 4));
    assert_memory_equal(&again, &p, sizeof p);
}

/* With one stage the microbatch is the whole share. With more it is the largest that leaves at least 2 pp microbatches,
 * which keeps the bubble below a third; with too few sequences it is one sequence. */
TEST(test_micro_batch_is_chosen_to_fill_the_pipeline) {
    const struct { int64_t pp, global_batch, micro; int n_microbatches; } expected[] = {
        {1, 24, 24, 1}, {2, 24, 6, 4}, {3, 24, 4, 6}, {4, 24, 3, 8}, {4, 20, 2, 10}, {4, 7, 1, 7}, {4, 2, 1, 2}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct plan p = small_plan();
        p.mesh.pp = expected[i].pp;
        p.global_batch = expected[i].global_batch;
        assert_ok(plan_settle(&p, (int)p.mesh.pp));
        assert_int_equal(p.micro_batch, expected[i].micro);
        assert_int_equal(p.n_microbatches, expected[i].n_microbatches);
    }
}

TEST(test_given_micro_batch_is_kept) {
    struct plan p = small_plan();
    p.mesh.dp = 2;
    p.micro_batch = 3;
    assert_ok(plan_settle(&p, 2));
    assert_int_equal(p.micro_batch, 3);
    assert_int_equal(p.n_microbatches, 4);
}

TEST(test_min_lr_is_a_tenth_unless_given) {
    struct plan p = small_plan(), zero = small_plan();
    p.lr = 5e-4;
    assert_ok(plan_settle(&p, 1));
    assert_close(p.min_lr, 5e-5, 1e-20);
    zero.min_lr = 0;
    assert_ok(plan_settle(&zero, 1));
    assert_close(zero.min_lr, 0, 0);
}

/* ---- refusals: value, limit, remedy ---- */
TEST(test_refuses_heads_that_do_not_divide) {
    struct plan p = small_plan();
    p.heads = 5;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "heads=5", "hidden=12", "1, 2, 3, 4, 6, 12");
}

TEST(test_refuses_a_world_that_tp_and_pp_do_not_divide) {
    struct plan p = small_plan();
    p.mesh.tp = 3;
    p.mesh.pp = 2;
    assert_fails(plan_settle(&p, 8), E_CONFIG, "tp=3", "pp=2", "there are 8", "multiple of 6");
}

TEST(test_refuses_a_layout_of_another_size_than_the_world) {
    struct plan p = small_plan();
    p.mesh.dp = 2;
    p.mesh.tp = 3;
    p.mesh.pp = 2;
    assert_fails(plan_settle(&p, 8), E_CONFIG, "tp=3 x dp=2 x pp=2", "needs 12", "are 8", "launch -n 12",
                 "leave --dp out");
}

/* The command show settles with a world of 0. */
TEST(test_a_world_of_0_is_what_the_layout_takes) {
    struct plan p = small_plan();
    p.mesh.tp = 3;
    assert_ok(plan_settle(&p, 0));
    assert_true(p.mesh.dp == 1 && plan_ranks(&p) == 3);
    p = small_plan();
    p.mesh.dp = 4;
    p.mesh.pp = 2;
    assert_ok(plan_settle(&p, 0));
    assert_int_equal(plan_ranks(&p), 8);
}

/* Ranks are ints, so 2^31 ranks are one too many. */
TEST(test_refuses_more_ranks_than_can_be_numbered) {
    struct plan p = small_plan();
    p.mesh.dp = p.mesh.tp = p.heads = p.hidden = p.global_batch = 1000000;
    assert_fails(plan_settle(&p, 0), E_CONFIG, "tp=1000000 x dp=1000000 needs", "needs 1000000000000 ranks",
                 "limit is 2147483647", "use smaller sizes");
    assert_fails(plan_settle(&p, 8), E_CONFIG, "needs 1000000000000 ranks", "limit is 2147483647");
    p.mesh.dp = p.global_batch = 1 << 23;
    p.mesh.tp = 1 << 8;
    assert_fails(plan_settle(&p, 0), E_CONFIG, "needs 2147483648 ranks");
    p.mesh.dp = p.global_batch = (1 << 23) - 1;
    assert_ok(plan_settle(&p, 0));
    assert_int_equal(plan_ranks(&p), 2147483392);
}

/* The remedy is the next batch that dp divides. */
TEST(test_refuses_a_batch_that_dp_does_not_divide) {
    struct plan p = small_plan();
    p.mesh.dp = 5;
    assert_fails(plan_settle(&p, 5), E_CONFIG, "dp=5", "global-batch=24", "use global-batch 25");
    p = small_plan();
    p.mesh.dp = 32;
    assert_fails(plan_settle(&p, 32), E_CONFIG, "dp=32", "use global-batch 32");
}

TEST(test_refuses_a_micro_batch_that_does_not_divide) {
    struct plan p = small_plan();
    p.mesh.dp = 2;
    p.micro_batch = 5;
    assert_fails(plan_settle(&p, 2), E_CONFIG, "micro-batch=5", "global-batch / dp = 12", "1, 2, 3, 4, 6, 12");
    p.micro_batch = 24;                                              /* more than the share */
    assert_fails(plan_settle(&p, 2), E_CONFIG, "micro-batch=24", "= 12");
}

/* The refusal must be quick even for a large prime number: 999999999989. */
TEST(test_refuses_a_huge_batch_at_once) {
    struct plan p = small_plan();
    p.global_batch = 999999999989;
    p.micro_batch = 2;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "micro-batch=2", "999999999989", "use one of 1");
    p = small_plan();
    p.global_batch = 999999999989;
    p.mesh.pp = 2;                                                        /* the only divisor in range is 1 */
    assert_fails(plan_settle(&p, 2), E_CONFIG, "999999999989 microbatches", "raise micro-batch");
}

TEST(test_refuses_more_microbatches_than_a_table_holds) {
    struct plan p = small_plan();
    p.global_batch = 3 << 20;
    p.micro_batch = 1;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "3145728 microbatches", "1048576", "raise micro-batch");
}

TEST(test_refuses_a_min_lr_above_lr) {
    struct plan p = small_plan();
    p.lr = 1e-3;
    p.min_lr = 2e-3;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "min-lr=0.002", "lr=0.001", "lower it");
}

TEST(test_divisors_are_all_and_stop_at_the_limit) {
    assert_string_equal(plan_divisors(12, 12), "1, 2, 3, 4, 6, 12");
    assert_string_equal(plan_divisors(12, 5), "1, 2, 3, 4");
    assert_string_equal(plan_divisors(1, 1), "1");
    const char *many = plan_divisors(6469693230, 1 << 20);           /* 1024 divisors: the list is cut between two */
    assert_in_range(strlen(many), 200, 255);
    assert_true(many[strlen(many) - 1] >= '0' && many[strlen(many) - 1] <= '9');
}

/* Each size is legal, but their product overflows int64_t, and the memory plan would sum negative bytes. */
TEST(test_refuses_sizes_that_cannot_be_counted) {
    struct plan p = small_plan();
    p.hidden = 1000000, p.heads = 1, p.seq = 1000000, p.global_batch = 1000000;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "more than 64 bits can count");
    p = small_plan();
    /* a large but legal model */
    p.layers = 96, p.hidden = 12288, p.heads = 96, p.seq = 131072, p.vocab = 50257, p.global_batch = 16384;
    assert_ok(plan_settle(&p, 1));
}

/* ---- learning rate ---- */
static struct plan schedule_of(int64_t steps, int64_t warmup) {
    struct plan p = small_plan();
    p.steps = steps;
    p.warmup = warmup;
    p.lr = 0.5;
    p.min_lr = 0.125;
    return p;
}

/* lr, min-lr and warmup are powers of two, so that the corners are exact. cos(pi) is exactly -1; cos(pi/2) is 6e-17. */
TEST(test_learning_rate_at_its_corners) {
    struct plan p = schedule_of(25, 8);
    assert_close(plan_lr(&p, 0), 0.5 / 8, 0);                        /* not 0, or the first step would be wasted */
    assert_close(plan_lr(&p, 3), 0.5 / 2, 0);
    assert_close(plan_lr(&p, 7), 0.5, 0);                            /* end of warmup */
    assert_close(plan_lr(&p, 8), 0.5, 0);                            /* start of the cosine */
    assert_close(plan_lr(&p, 16), (0.5 + 0.125) / 2, 1e-15);         /* the middle of 8 .. 24 */
    assert_close(plan_lr(&p, 24), 0.125, 0);                         /* the last step */
    assert_close(plan_lr(&p, 1000), 0.125, 0);
}

/* A quarter of the way the cosine is at (1 + cos(pi/4)) / 2. */
TEST(test_learning_rate_follows_half_a_cosine) {
    struct plan p = schedule_of(17, 0);
    assert_close(plan_lr(&p, 0), 0.5, 0);
    assert_close(plan_lr(&p, 4), 0.125 + 0.375 * (1 + sqrt(0.5)) / 2, 1e-15);
    assert_close(plan_lr(&p, 12), 0.125 + 0.375 * (1 - sqrt(0.5)) / 2, 1e-15);
    for (int n = 1; n < 17; n++) assert_true(plan_lr(&p, n) < plan_lr(&p, n - 1));
}

TEST(test_learning_rate_of_very_short_runs) {
    struct plan one = schedule_of(1, 0), two = schedule_of(2, 0), warming = schedule_of(4, 100),
                all_warmup = schedule_of(4, 4);
    assert_close(plan_lr(&one, 0), 0.5, 0);
    assert_close(plan_lr(&two, 0), 0.5, 0);
    assert_close(plan_lr(&two, 1), 0.125, 0);
    assert_close(plan_lr(&warming, 3), 0.5 * 4 / 100, 1e-17);
    assert_close(plan_lr(&all_warmup, 3), 0.5, 0);
    assert_close(plan_lr(&all_warmup, 4), 0.5, 0);                   /* warmup takes all steps */
}

/* ---- place ---- */
TEST(test_place_is_that_of_the_rank) {
    struct plan p = small_plan();
    p.mesh.tp = 2;
    p.mesh.pp = 3;
    assert_ok(plan_settle(&p, 12));
    plan_place(&p, 7);                                               /* (pp 1, dp 1, tp 1): 1 x 2 x 2 + 1 x 2 + 1 */
    assert_true(p.place.rank.pp == 1 && p.place.rank.dp == 1 && p.place.rank.tp == 1);
    assert_true(p.place.n.dp == 2 && p.place.n.tp == 2 && p.place.n.pp == 3);
}

/* The options that --sums fixed refuses. */
static struct plan fixed_plan(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    p.layers = 2, p.hidden = 32, p.heads = 4, p.seq = 16, p.vocab = 61;
    p.device = PLAN_DEVICE_CPU;
    p.sums = PLAN_SUMS_FIXED;
    return p;
}

TEST(test_fixed_sums_have_no_chunks_of_the_loss) {
    struct plan p = fixed_plan();
    assert_ok(plan_settle(&p, 1));
    assert_int_equal(p.loss_chunk, 0);
}

TEST(test_fixed_sums_want_powers_of_two) {
    struct plan p = fixed_plan();
    p.global_batch = 24;
    p.micro_batch = 8;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "global-batch / dp / micro-batch=3", "power of two", "sums=fast");
    p.micro_batch = 12;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "micro-batch=12", "power of two", "sums=fast");
    p.micro_batch = 0, p.mesh.dp = 3;
    assert_fails(plan_settle(&p, 3), E_CONFIG, "dp=3", "power of two", "sums=fast");
    p.mesh.dp = 8, p.micro_batch = 1;
    assert_fails(plan_settle(&p, 8), E_CONFIG, "micro-batch=3", "power of two");
    p.sums = PLAN_SUMS_FAST;
    assert_ok(plan_settle(&p, 8));
}

TEST(test_fixed_sums_refuse_what_has_no_order) {
    struct plan p = fixed_plan();
    p.device = PLAN_DEVICE_CUDA;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "device=cuda", "use device=cpu", "sums=fast");
    p = fixed_plan(), p.precision = PRECISION_FP64;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "precision=fp64", "fp32 and bf16", "sums=fast");
    p = fixed_plan(), p.precision = PRECISION_FP16;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "precision=fp16", "fp32 and bf16", "sums=fast");
    p = fixed_plan(), p.mesh.cp = 2;
    assert_fails(plan_settle(&p, 2), E_CONFIG, "shards of a sequence", "cp=2", "use cp=1", "sums=fast");
    p = fixed_plan(), model_options(&p)->experts = 4;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "routed", "experts=4", "use experts=0", "sums=fast");
    p = fixed_plan(), strcpy(comm_options(&p)->algorithm, "dp=ring");
    assert_fails(plan_settle(&p, 1), E_CONFIG, "as a tree", "comm-algorithm=dp=ring", "comm-algorithm=auto", "fast");
    p = fixed_plan(), p.loss_chunk = 64;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "by tokens", "loss-chunk=64", "use loss-chunk=0", "sums=fast");
    p = fixed_plan(), p.mesh.pp = 2, model_options(&p)->tie = 0, pp_options(&p)->schedule = SCHEDULE_2BW;
    assert_fails(plan_settle(&p, 2), E_CONFIG, "asynchronous", "use schedule 1f1b", "sums=fast");
}

/* Techniques refuse their own options themselves. */
TEST(test_techniques_refuse_what_has_no_fixed_sum) {
    struct run r;
    struct plan p = fixed_plan();
    struct model_options *m = model_options(&p);
    p.precision = PRECISION_BF16;
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "grad-fp32=off", "use grad-fp32", "fast");
    run_destroy(&r);
    p = fixed_plan(), fp8_options(&p)->on = 1;
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "fp8=on", "leave fp8 out", "sums=fast");
    run_destroy(&r);
    p = fixed_plan(), p.mesh.tp = 4, m->ffn = 68, p.heads = 4;        /* 68 = 4 x 17 */
    assert_ok(plan_settle(&p, 4));
    assert_ok(technique_tp.check(&p));
    p.heads = 8, p.mesh.tp = 8, m->ffn = 72, p.hidden = 64, plan_set_number(&p, "sp", 1), p.seq = 24, p.vocab = 61;
    assert_ok(technique_tp.check(&p));
    p.mesh.tp = 16, p.heads = 16, m->ffn = 64, p.seq = 32;
    assert_fails(technique_tp.check(&p), E_CONFIG, "at most 8 equal parts", "tp=16", "tp=8 or less", "sums=fast");
}

TESTS(unit_test(test_a_plan_of_defaults_keeps_nothing_of_what_the_memory_held),
      unit_test(test_dp_is_what_the_world_leaves), unit_test(test_settling_twice_changes_nothing),
      unit_test(test_micro_batch_is_chosen_to_fill_the_pipeline), unit_test(test_given_micro_batch_is_kept),
      unit_test(test_min_lr_is_a_tenth_unless_given), unit_test(test_refuses_heads_that_do_not_divide),
      unit_test(test_refuses_a_world_that_tp_and_pp_do_not_divide),
      unit_test(test_refuses_a_layout_of_another_size_than_the_world),
      unit_test(test_a_world_of_0_is_what_the_layout_takes), unit_test(test_refuses_more_ranks_than_can_be_numbered),
      unit_test(test_refuses_a_batch_that_dp_does_not_divide),
      unit_test(test_refuses_a_micro_batch_that_does_not_divide), unit_test(test_refuses_a_huge_batch_at_once),
      unit_test(test_refuses_more_microbatches_than_a_table_holds), unit_test(test_refuses_a_min_lr_above_lr),
      unit_test(test_refuses_sizes_that_cannot_be_counted), unit_test(test_divisors_are_all_and_stop_at_the_limit),
      unit_test(test_learning_rate_at_its_corners), unit_test(test_learning_rate_follows_half_a_cosine),
      unit_test(test_learning_rate_of_very_short_runs), unit_test(test_place_is_that_of_the_rank),
      unit_test(test_fixed_sums_have_no_chunks_of_the_loss), unit_test(test_fixed_sums_want_powers_of_two),
      unit_test(test_fixed_sums_refuse_what_has_no_order), unit_test(test_techniques_refuse_what_has_no_fixed_sum))
