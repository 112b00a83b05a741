/* ranks: 1  device: cpu
 *
 * Stages: rows of a profile, stages that are alike, stages from a stem, the time line. */
#include "planner/test_price.h"

/* The forecast of a profile adds up to the stage, with all microbatches and replays. With tp, asynchronous exchanges
 * are in no row. */
TEST(test_rows_of_a_profile_add_up_to_the_stage) {
    struct cluster c = gpus();
    for (int i = 0; i < 4; i++) {
        struct plan p = plan_of(1, i / 2 ? 4 : 1, 1);
        recompute_options(&p)->kind = i % 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        struct price x = price_of(p, &c);
        struct profile_forecast f;
        struct run r;
        double sum = 0;
        assert_ok(plan_settle(&p, 0));
        assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
        assert_ok(price_profile(&r, &c, &f));
        for (int s = 0; s < r.program.n_steps; s++)
            for (int k = 0; k < ROW_WAIT; k++) sum += f.row_s[s][k];
        if (i / 2 == 0) assert_close(sum, x.stage[0].s, 1e-9 * x.step_s);
        assert_true(sum > 0.9 * x.stage[0].s && sum <= x.stage[0].s * (1 + 1e-9));
        assert_close(f.update_s, price_update_bytes(&r.program) / (c.memory_bytes_per_s * c.stream_part), 1e-12);
        free(f.row_s);
        run_destroy(&r);
    }
}

/* Stages that are not compiled, because they are like others, have the price that compiling gives. */
TEST(test_like_stages_are_like) {
    struct cluster c = gpus();
    struct plan p;
    for (int i = 0; layout(i, &p); i++) {
        struct price like = price_of(p, &c), each;
        assert_ok(plan_settle(&p, 0));
        assert_ok(price_plan(&train_recipe, &p, &c, &(struct price_wish){.uneven = true}, &each));
        assert_close(like.step_s, each.step_s, 0);
        assert_true(like.total_bytes == each.total_bytes);
    }
    static const int ORDERS[] = {SCHEDULE_1F1B, SCHEDULE_ZB_H1, SCHEDULE_ZB_V};
    for (int layers = 16; layers <= 32; layers++)                    /* also if pp does not divide layers */
        for (int k = 0; k < 3; k++) {
            p = plan_of(1, 1, 8);
            p.layers = layers, pp_options(&p)->schedule = ORDERS[k];
            struct price like = price_of(p, &c), each;
            assert_ok(plan_settle(&p, 0));
            assert_ok(price_plan(&train_recipe, &p, &c, &(struct price_wish){.uneven = true}, &each));
            for (int i = 0; i < 8; i++) assert_close(like.stage[i].s, each.stage[i].s, 0);
            for (int i = 0; i < 8; i++) assert_int_equal(like.stage[i].layers, each.stage[i].layers);
            assert_true(like.step_s == each.step_s && like.total_bytes == each.total_bytes);
        }
}

static void same_run(const struct run *a, const struct run *b) {
    assert_int_equal(a->program.n_steps, b->program.n_steps);
    assert_int_equal(a->schedule.n, b->schedule.n);
    for (int i = 0; i < N_ROLES; i++) assert_true(a->memory.bytes[TIER_DEVICE][i] == b->memory.bytes[TIER_DEVICE][i]);
    for (int i = 0; i < N_MESH_AXES; i++) assert_close(a->bill.wire_bytes[i], b->bill.wire_bytes[i], 0);
    for (int i = 0; i <= ROW_BACKWARD_WEIGHT; i++) assert_close(a->bill.flops[i], b->bill.flops[i], 0);
    for (int k = 0; k < a->program.n_chunks; k++)
        for (int t = 0; t < N_TAPES; t++) assert_int_equal(a->chunks[k].tapes[t].n, b->chunks[k].tapes[t].n);
}

/* A stage that shares a stem with another plan equals the stage compiled alone. */
TEST(test_stages_from_a_stem_are_the_run_s) {
    struct plan p;
    struct run_stem stem = {.n_stages = 0};
    for (int i = 0; layout(i, &p); i++)
        for (int keep = 0; keep < 6; keep++) {
            int n = p.mesh.pp ? (int)p.mesh.pp : 1;
            struct plan q = p;
            plan_set_number(&q, "zero", n > 1 ? keep % 2 : keep % 4), recompute_options(&q)->kind = keep / 2;
            if (plan_number(&q, "zero") < 3 && zero_options(&q)->offload) zero_options(&q)->offload = OFFLOAD_OPTIMIZER;
            if (plan_number(&q, "zero") == 0) zero_options(&q)->offload = OFFLOAD_NONE;
            if (keep == 5 && n > 1 && pp_options(&q)->schedule == SCHEDULE_1F1B)
                pp_options(&q)->schedule = SCHEDULE_GPIPE;           /* the same cut, but another order */
            assert_ok(plan_settle(&q, 0));
            for (int stage = 0; stage < n; stage++) {
                struct run alone, shared;
                assert_ok(run_compile(&alone, &train_recipe, &q, stage * (plan_ranks(&q) / n), NULL, NULL));
                assert_ok(run_compile_stage(&shared, &train_recipe, &q, stage, n, &stem));
                same_run(&alone, &shared);
                run_destroy(&alone);
                run_destroy(&shared);
            }
        }
    run_stem_fini(&stem);
}

/* The time line is the step without its end, and its compute spans are each stage's own work. */
static void check_time_line(struct plan p, const struct cluster *c) {
    struct price x = price_of(p, c);
    struct price_time_line t;
    assert_ok(plan_settle(&p, 0));
    assert_ok(price_time_line(&train_recipe, &p, c, false, &t));
    assert_close(t.timeline.makespan, x.stage[x.busiest].s + x.phase_s[PRICE_BUBBLE] + x.phase_s[PRICE_PP],
                 1e-9 * x.step_s);
    for (int i = 0; i < t.n_stages; i++) {
        double work = 0;
        for (int k = 0; k < t.schedules[i].n; k++) {
            const struct timeline_span span = t.timeline.span[i][k];
            if (action_is_compute(t.schedules[i].actions[k].kind)) work += span.end - span.start;
        }
        assert_close(work, x.stage[i].s, 1e-9 * x.step_s);
    }
    price_time_line_fini(&t);
}

/* ---- stacks ---- */
/* A replay of whole layers is one more forward of each layer, without embedding and head. */
TEST(test_a_stack_replays_whole_layers) {
    struct cluster ours = bare(), theirs = bare();
    theirs.stack.whole_layers = true;
    struct plan p = plan_of(1, 4, 1), few = p;
    few.layers = 1;
    for (int kind = RECOMPUTE_NONE; kind <= RECOMPUTE_SELECTIVE; kind++) {
        recompute_options(&p)->kind = kind;
        assert_close(price_of(p, &theirs).step_s, price_of(p, &ours).step_s, 0);
    }
    recompute_options(&p)->kind = recompute_options(&few)->kind = RECOMPUTE_FULL;
    struct price x = price_of(p, &ours), y = price_of(p, &theirs), z = price_of(few, &theirs);
    double forward_s = x.forward_s - price_of(few, &ours).forward_s;           /* of 15 layers */
    assert_true(y.phase_s[PRICE_REPLAY] > 1.1 * x.phase_s[PRICE_REPLAY]);
    assert_close(y.phase_s[PRICE_REPLAY] - z.phase_s[PRICE_REPLAY], forward_s, 1e-9 * forward_s);
    assert_close(z.phase_s[PRICE_REPLAY], forward_s / 15, 1e-9 * forward_s);   /* neither embedding nor head */
    assert_close(y.step_s - x.step_s, y.phase_s[PRICE_REPLAY] - x.phase_s[PRICE_REPLAY], 1e-9 * x.step_s);
}

TEST(test_a_stack_hides_less_or_more) {
    struct cluster c = gpus(), other = gpus();
    struct plan p = plan_of(16, 1, 1), tp = plan_of(1, 8, 1);
    other.stack.sums_wait = true;
    struct cluster nothing = gpus();
    nothing.overlap_part = nothing.overlap_slowdown = 0;             /* then backward hides nothing either */
    assert_close(price_of(p, &other).phase_s[PRICE_DP], price_of(p, &nothing).phase_s[PRICE_DP], 1e-12);
    assert_true(price_of(p, &other).phase_s[PRICE_DP] > 1.5 * price_of(p, &c).phase_s[PRICE_DP]);
    other.stack.sums_hide_from_zero = 2;
    for (int zero = 1; zero <= 2; zero++) {
        plan_set_number(&p, "zero", zero);
        bool same = price_of(p, &other).phase_s[PRICE_DP] == price_of(p, &c).phase_s[PRICE_DP];
        assert_int_equal(same, zero == 2);
    }
    other = gpus(), other.stack.gathers_wait = true;
    plan_set_number(&p, "zero", 1);
    assert_close(price_of(p, &other).phase_s[PRICE_GATHER], price_of(p, &nothing).phase_s[PRICE_GATHER], 1e-12);
    tp.layers = 2, tp.hidden = 8192, tp.heads = 64;                  /* products are long */
    other = gpus(), other.stack.tp_hidden_part = 0.5;
    struct price x = price_of(tp, &c), y = price_of(tp, &other);
    assert_close(y.phase_s[PRICE_TP], 0.5 * x.phase_s[PRICE_TP], 1e-9 * x.step_s);
    other.stack.tp_hidden_part = 1, other.product_part = c.product_part = 1, other.flops_per_s[BF16] *= 100;
    y = price_of(tp, &other);                                        /* products are too short to hide all */
    assert_true(y.phase_s[PRICE_TP] > 0.5 * x.phase_s[PRICE_TP]);
}

/* Buckets pay one latency instead of one for each param; ZeRO-3 in them one for each block. */
TEST(test_a_stack_gathers_in_buckets) {
    struct cluster c = bare();
    for (int i = 0; i < c.n_levels; i++) c.level[i].bytes_per_s = 1e18, c.level[i].alpha_s = 0;
    c.call_s = 1e-3;                                                 /* so seconds count calls */
    struct plan p = plan_of(16, 1, 1);
    plan_set_number(&p, "zero", 1);
    double each = price_of(p, &c).phase_s[PRICE_GATHER];
    c.stack.buckets = true;
    assert_close(price_of(p, &c).phase_s[PRICE_GATHER], 1e-3, 1e-9);
    assert_true(each > 0.1);
    plan_set_number(&p, "zero", 3);
    double m = (double)p.global_batch / 16 / (double)p.micro_batch, twice = 2 * m * 18 * 1e-3;   /* 18 blocks */
    assert_close(price_of(p, &c).phase_s[PRICE_GATHER], twice, 0.03 * twice);   /* the tied weights: three times */
    c.stack.replay_gathers = true;
    assert_close(price_of(p, &c).phase_s[PRICE_GATHER], twice, 0.03 * twice);
    recompute_options(&p)->kind = RECOMPUTE_FULL;
    assert_close(price_of(p, &c).phase_s[PRICE_GATHER], 1.5 * twice, 0.03 * 1.5 * twice);
}

TEST(test_a_stack_needs_other_memory) {
    struct cluster c = gpus();
    struct plan p = plan_of(8, 1, 2);
    plan_set_number(&p, "zero", 1);
    struct price x = price_of(p, &c), y;
    c.stack.in_place = true;
    y = price_of(p, &c);
    assert_true(x.bytes[ROLE_COMM] > 0 && y.total_bytes == x.total_bytes - x.bytes[ROLE_COMM]);
    c.stack.fragments = 0.25;
    assert_close((double)price_of(p, &c).total_bytes, 1.25 * (double)y.total_bytes, 2);
    c.memory_bytes = y.total_bytes + 4096, c.reserve_bytes = 0;
    assert_false(price_of(p, &c).fits);
    c.stack.fragments = 0;
    assert_true(price_of(p, &c).fits);
}

TEST(test_time_line_is_the_step_s) {
    struct cluster c = gpus();
    struct plan p;
    for (int i = 0; layout(i, &p); i++) check_time_line(p, &c);
    struct price x = price_of(plan_of(1, 1, 4), &c);
    assert_true(x.stage[3].s > 1.02 * x.stage[1].s);                 /* the head makes stages differ */
    check_time_line(plan_of(1, 1, 4), &c);
}

/* Products of 8192 by 8192 by 8192: twice the rate gains more than casts cost, in every layout. */
TEST(test_fp8_is_not_slower_than_bf16_where_products_are_large) {
    struct cluster h100, none = gpus();
    assert_ok(cluster_read("dgx-h100", &h100));
    for (int tp = 1; tp <= 4; tp *= 4)
        for (int kind = RECOMPUTE_NONE; kind <= RECOMPUTE_FULL; kind++) {
            struct plan p = plan_of(2, tp, 2);
            p.hidden = 8192, p.heads = 64, p.seq = 8192, p.micro_batch = 1, p.global_batch = 8;
            recompute_options(&p)->kind = kind;
            struct price bf16 = price_of(p, &h100);
            plan_set_number(&p, "fp8", 1);
            struct price fp8 = price_of(p, &h100);
            assert_true(fp8.step_s < 0.9 * bf16.step_s);
            assert_true(fp8.phase_s[PRICE_CASTS] > 0 && bf16.phase_s[PRICE_CASTS] == 0);
            assert_true(fp8.phase_s[PRICE_PRODUCTS] < 0.8 * bf16.phase_s[PRICE_PRODUCTS]);
            assert_close(sum_of(&fp8), fp8.step_s, 1e-9);
            assert_ok(plan_settle(&p, 0));
            assert_fails(price_check(&p, &none), E_CONFIG, "dgx-a100 has no peak in fp8; give its tflops-fp8");
        }
}

/* The same by blocks on a B200: codes of 8 bits have twice the rate, those of 4 bits four times. A GPU without fp4 has
 * no block scales. */
TEST(test_block_scales_are_not_slower_than_bf16_where_products_are_large) {
    struct cluster b200, h100;
    assert_ok(cluster_read("dgx-b200", &b200));
    assert_ok(cluster_read("dgx-h100", &h100));
    assert_close(b200.flops_per_s[FP4_E2M1], 2 * b200.flops_per_s[FP8_E4M3], 0);
    for (int tp = 1; tp <= 4; tp *= 4) {
        struct plan p = plan_of(2, tp, 2);
        p.hidden = 8192, p.heads = 64, p.seq = 8192, p.micro_batch = 1, p.global_batch = 8;
        double before = price_of(p, &b200).step_s;
        plan_set_number(&p, "fp8", 1);
        for (int recipe = 1; recipe <= 4; recipe++) {                /* mxfp8, mxfp8-e5m2, mxfp4, nvfp4 */
            plan_set_number(&p, "fp8-recipe", recipe);
            struct price x = price_of(p, &b200);
            assert_true(recipe == 1 || recipe == 3 ? x.step_s < 0.9 * before : x.step_s < 1.02 * before);
            assert_true(x.phase_s[PRICE_CASTS] > 0);
            assert_close(sum_of(&x), x.step_s, 1e-9);
            before = recipe % 2 ? x.step_s : before;
        }
        assert_ok(plan_settle(&p, 0));
        assert_fails(price_check(&p, &h100), E_CONFIG, "dgx-h100 has no peak in fp4; give its tflops-fp4");
    }
}

TESTS(unit_test(test_fp8_is_not_slower_than_bf16_where_products_are_large),
      unit_test(test_block_scales_are_not_slower_than_bf16_where_products_are_large),
      unit_test(test_rows_of_a_profile_add_up_to_the_stage), unit_test(test_like_stages_are_like),
      unit_test(test_stages_from_a_stem_are_the_run_s), unit_test(test_a_stack_replays_whole_layers),
      unit_test(test_a_stack_hides_less_or_more), unit_test(test_a_stack_gathers_in_buckets),
      unit_test(test_a_stack_needs_other_memory), unit_test(test_time_line_is_the_step_s))
