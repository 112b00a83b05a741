/* ranks: 1  device: cpu */
#include "dp_variants/local/local.h"
#include "models/gpt/gpt.h"
#include "planner/test_price.h"

TEST(test_phases_add_up_to_the_step) {
    struct cluster c = gpus();
    struct plan p;
    for (int i = 0; layout(i, &p); i++) {
        struct price x = price_of(p, &c);
        assert_close(sum_of(&x), x.step_s, 1e-12 * x.step_s);
        for (int k = 0; k < N_PRICE_PHASES; k++) assert_true(x.phase_s[k] > -1e-12);
        assert_true(x.mfu > 0 && x.mfu < 1);
    }
}

/* The bytes are those of the compiled run: of the fullest stage, not of the mean. */
TEST(test_bytes_are_the_run_s) {
    struct cluster c = gpus();
    struct plan p = plan_of(2, 2, 4);
    struct price x = price_of(p, &c);
    assert_ok(plan_settle(&p, 0));
    int64_t most = 0;
    for (int rank = 0; rank < 16; rank += 4) {
        struct run r;
        int64_t total = 0;
        assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
        for (int role = 0; role < N_ROLES; role++) total += r.memory.bytes[TIER_DEVICE][role];
        if (total > most) most = total;
        run_destroy(&r);
    }
    assert_true(x.total_bytes == most);
    assert_int_equal(x.fullest, 0);
    assert_true(x.fits);
    c.memory_bytes = most + c.reserve_bytes - 1;
    assert_false(price_of(plan_of(2, 2, 4), &c).fits);
}

/* One rank exchanges nothing; twice the batch takes nearly twice the time. */
TEST(test_one_rank) {
    struct cluster c = gpus();
    struct plan p = plan_of(1, 1, 1);
    struct price x = price_of(p, &c);
    for (int k = PRICE_TP; k <= PRICE_GATHER; k++) assert_close(x.phase_s[k], 0, 1e-15);
    p.global_batch *= 2;
    double twice = price_of(p, &c).step_s;
    assert_true(twice > 1.9 * x.step_s && twice < 2 * x.step_s);
}

/* 1F1B of m microbatches, S seconds on a stage: m max S + (sum S - max S), if wires take no time and backward is a
 * multiple of forward. The head's is not, and makes the last stage the longest. */
TEST(test_1f1b_is_about_its_closed_form) {
    struct cluster c = gpus();
    struct price x = price_of(plan_of(1, 1, 4), &c);
    double sum = 0, most = 0, m = 32;
    for (int i = 0; i < 4; i++) sum += x.stage[i].s / m, most = fmax(most, x.stage[i].s / m);
    assert_int_equal(x.busiest, 3);
    assert_close(x.stage[x.busiest].s + x.phase_s[PRICE_BUBBLE], m * most + (sum - most), 0.01 * m * most);
}

/* A better cluster never makes a step longer, and makes the steps of some layouts shorter. */
static void check_law(void (*improve)(struct cluster *), const char *name) {
    struct cluster c = gpus(), better = gpus();
    struct plan p;
    bool shorter = false;
    improve(&better);
    for (int i = 0; layout(i, &p); i++) {
        double now = price_of(p, &c).step_s, then = price_of(p, &better).step_s;
        if (then > now * (1 + 1e-12)) print_error("%s: layout %d took %g s, and takes %g\n", name, i, now, then);
        assert_true(then <= now * (1 + 1e-12));
        shorter |= then < now;
    }
    assert_true(shorter);
}
static void twice_the_peak(struct cluster *c) { c->flops_per_s[BF16] *= 2; }
static void twice_the_memory_s_speed(struct cluster *c) { c->memory_bytes_per_s *= 2; }
static void faster_nodes(struct cluster *c) { c->level[0].bytes_per_s *= 2; }
static void faster_network(struct cluster *c) { c->level[1].bytes_per_s *= 2; }
static void half_the_latency(struct cluster *c) { c->level[0].alpha_s /= 2, c->level[1].alpha_s /= 2; }
static void twice_the_host_s_speed(struct cluster *c) { c->host_bytes_per_s *= 2, c->host_memory_bytes_per_s *= 2; }
static void one_node_of_16(struct cluster *c) { c->level[0].ranks = 16; }
TEST(test_laws) {
    check_law(twice_the_peak, "twice the peak");
    check_law(twice_the_memory_s_speed, "twice the memory's speed");
    check_law(faster_nodes, "faster nodes");
    check_law(faster_network, "a faster network");
    check_law(half_the_latency, "half the latency");
    check_law(one_node_of_16, "one node of 16");
    check_law(twice_the_host_s_speed, "twice the host's speed");
}

/* Infinitely fast wires leave only rows, the bubble and the update. */
TEST(test_infinite_wires) {
    struct cluster c = gpus();
    struct plan p;
    c.call_s = 0;
    for (int l = 0; l < c.n_levels; l++) c.level[l].bytes_per_s = 1e30, c.level[l].alpha_s = 0;
    for (int i = 0; layout(i, &p); i++) {
        struct price x = price_of(p, &c);
        const enum price_phase WIRES[] = {PRICE_TP, PRICE_CP, PRICE_EP, PRICE_PP, PRICE_DP, PRICE_GATHER};
        for (int k = 0; k < 6; k++) assert_close(x.phase_s[WIRES[k]], 0, 1e-9);
    }
}

/* tp fills the nodes, so every sum over replicas goes through the network. */
TEST(test_sums_over_replicas_lie_where_replicas_do) {
    struct cluster c = bare();
    struct plan p = plan_of(2, 8, 1);
    struct price x = price_of(p, &c);
    struct run r;
    double sums = 0;
    assert_ok(plan_settle(&p, 0));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    for (int i = 0; i < r.bill.n_exchanges; i++) {
        const struct exchange *e = &r.bill.exchanges[i];
        if (e->when != BEHIND_BACKWARD) continue;
        sums += c.call_s + (double)e->count * 2 / c.level[1].bytes_per_s + 2 * c.level[1].alpha_s;
    }
    assert_true(sums > 0);
    assert_close(x.phase_s[PRICE_DP], sums, 1e-9 * sums);            /* two replicas: 2 (n-1)/n = 1 */
    run_destroy(&r);
}

/* Replicas that exchange once in H steps add 1/H of that exchange's time to the mean step. */
static double end_of(int64_t local_steps, const struct cluster *c) {
    struct plan p = plan_of(4, 2, 1);
    p.device = PLAN_DEVICE_CPU, p.steps = 100;
    local_options(&p)->steps = local_steps;
    return price_of(p, c).phase_s[PRICE_OPTIM];
}
TEST(test_what_comes_now_and_then_is_priced_by_the_step) {
    struct cluster c = bare();
    double every = end_of(1, &c), second = end_of(2, &c), fourth = end_of(4, &c), hundredth = end_of(100, &c);
    assert_true(every - second > 0.1 * second);
    assert_close(every - second, 2 * (second - fourth), 1e-9 * every);
    assert_close(every - hundredth, 0.99 * 2 * (every - second), 1e-9 * every);
}

/* A sum that backward hides costs overlap_slowdown of its time. */
TEST(test_what_hides_is_slower) {
    struct cluster c = bare();
    double all = price_of(plan_of(16, 1, 1), &c).phase_s[PRICE_DP];
    c.overlap_part = 1;
    assert_close(price_of(plan_of(16, 1, 1), &c).phase_s[PRICE_DP], 0, 1e-15);
    c.overlap_slowdown = 0.25;
    assert_close(price_of(plan_of(16, 1, 1), &c).phase_s[PRICE_DP], 0.25 * all, 1e-9 * all);
}

/* ZeRO-1 gathers behind the forward of one microbatch, whatever their number: the rest is not hidden. */
TEST(test_one_forward_hides_what_zero_1_gathers) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    plan_set_number(&p, "zero", 1);
    p.micro_batch = 1;                                               /* one of 4 microbatches */
    struct price none = price_of(p, &c);
    c.overlap_part = 1;
    for (int l = 0; l < c.n_levels; l++) c.level[l].bytes_per_s /= 64, c.level[l].alpha_s *= 64;
    c.call_s *= 64;
    struct price slow = price_of(p, &c);
    double gathers = 64 * none.phase_s[PRICE_GATHER];
    assert_true(gathers > none.forward_s);
    assert_close(slow.phase_s[PRICE_GATHER], gathers - none.forward_s / 4, 1e-9 * gathers);
}

/* ZeRO-1: each of 16 replicas updates a sixteenth. ZeRO-3 gathers in each microbatch twice what ZeRO-1 gathers once per
 * step; it gathers the last block only once, and the tied embedding more often. */
TEST(test_what_zero_shards) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    p.micro_batch = 1;                                               /* 4 microbatches */
    c.call_s = 0, c.level[0].alpha_s = c.level[1].alpha_s = 0;
    struct price whole = price_of(p, &c);
    plan_set_number(&p, "zero", 1);
    struct price one = price_of(p, &c);
    plan_set_number(&p, "zero", 3);
    struct price three = price_of(p, &c);
    assert_close(one.phase_s[PRICE_OPTIM], whole.phase_s[PRICE_OPTIM] / 16, 0.02 * one.phase_s[PRICE_OPTIM]);
    double ratio = three.phase_s[PRICE_GATHER] / one.phase_s[PRICE_GATHER];
    if (ratio < 6 || ratio > 8.5) fail_msg("zero 3 gathers %g times as much", ratio);
}

/* Packing reads each bf16 gradient and writes it into a bucket. A sixteenth comes back; adding it reads two numbers and
 * writes one. */
TEST(test_packing_is_work_in_memory) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    double whole_s = price_of(p, &c).phase_s[PRICE_MEMORY], n = (double)gpt_n_params(&p);
    plan_set_number(&p, "zero", 1);
    double packing_s = n * 2 * (2 + 3.0 / 16) / (c.memory_bytes_per_s * c.stream_part);
    assert_close(price_of(p, &c).phase_s[PRICE_MEMORY] - whole_s, packing_s, 0.01 * packing_s);
}

/* int8 codes take 1 + 1/64 bytes per weight, bf16 takes 2. Each gather reads a shard and writes its code, copies 17
 * codes in all, reads 16 codes and writes 16 shards: 17/16 of the weights times 2 + 3 (1 + 1/64) bytes. */
TEST(test_codes_of_weights_are_less_wire_and_more_work) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    struct run r;
    double n = 0;
    p.device = PLAN_DEVICE_CPU;
    plan_set_number(&p, "zero", 3);
    c.call_s = 0, c.level[0].alpha_s = c.level[1].alpha_s = 0;
    struct price plain = price_of(p, &c);
    struct plan settled = p;
    assert_ok(plan_settle(&settled, 0));
    assert_ok(run_compile(&r, &train_recipe, &settled, 0, NULL, NULL));
    for (int i = 0; i < r.bill.n_exchanges; i++)
        if (r.bill.exchanges[i].op == COMM_ALL_GATHER)
            n += (double)(r.bill.exchanges[i].count * r.bill.exchanges[i].times);
    run_destroy(&r);
    zero_options(&p)->weight_codec = CODEC_INT8;
    struct price coded = price_of(p, &c);
    double work_s = n * 17 / 16 * (2 + 3 * (1 + 1 / 64.0)) / (c.memory_bytes_per_s * c.stream_part);
    assert_close(coded.phase_s[PRICE_GATHER] / plain.phase_s[PRICE_GATHER], (1 + 1 / 64.0) / 2, 0.002);
    assert_close(coded.phase_s[PRICE_MEMORY] - plain.phase_s[PRICE_MEMORY], work_s, 0.01 * work_s);
}

/* A replay repeats its exchanges. */
TEST(test_a_replay_has_its_exchanges) {
    struct cluster c = bare(), fast = bare();
    struct plan p = plan_of(1, 8, 1);
    recompute_options(&p)->kind = RECOMPUTE_FULL;
    fast.level[0].bytes_per_s = 1e30;
    double slow = price_of(p, &c).phase_s[PRICE_REPLAY];
    assert_true(price_of(p, &fast).phase_s[PRICE_REPLAY] < 0.95 * slow);
}

TEST(test_price_refuses) {
    struct cluster c = gpus();
    struct plan p = plan_of(1, 1, 1);
    struct price x;
    c.flops_per_s[BF16] = 0;
    assert_ok(plan_settle(&p, 0));
    assert_fails(price_plan(&train_recipe, &p, &c, NULL, &x), E_CONFIG, "dgx-a100 has no peak in bf16",
                 "give its tflops");
}

TESTS(unit_test(test_phases_add_up_to_the_step), unit_test(test_bytes_are_the_run_s), unit_test(test_one_rank),
      unit_test(test_1f1b_is_about_its_closed_form), unit_test(test_laws), unit_test(test_infinite_wires),
      unit_test(test_sums_over_replicas_lie_where_replicas_do),
      unit_test(test_what_comes_now_and_then_is_priced_by_the_step), unit_test(test_what_hides_is_slower),
      unit_test(test_one_forward_hides_what_zero_1_gathers), unit_test(test_what_zero_shards),
      unit_test(test_packing_is_work_in_memory), unit_test(test_codes_of_weights_are_less_wire_and_more_work),
      unit_test(test_a_replay_has_its_exchanges),
      unit_test(test_price_refuses))
