/* ranks: 1  device: cpu */
#include "dp_variants/local/local.h"
#include "lib/cost/wire_time.h"
#include "models/gpt/gpt.h"
#include "models/t5/t5.h"
#include "park/park.h"
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

/* Products are all that takes time: 16 layers of 4 matrices of n x n and 2 of n x 4n, in fp32, at part of the peak. */
TEST(test_an_update_by_muon_takes_its_products) {
    struct cluster c = bare();
    struct plan p = plan_of(1, 1, 1);
    double n = (double)p.hidden, flops = 16 * 5 * (4 * (6 * n * n * n) + 2 * (4 * n * n * 4 * n + 2 * n * n * n));
    c.memory_bytes_per_s = 1e30, c.launch_s = 0, c.n_movers = 0, c.level[0].bytes_per_s = 1e30;
    c.product_m0 = c.product_n0 = c.product_k0 = 0, c.tile_units = 0;
    double adamw = price_of(p, &c).phase_s[PRICE_OPTIM];
    p.optimizer = OPTIMIZER_MUON;
    double one = price_of(p, &c).phase_s[PRICE_OPTIM], expected = flops / (c.flops_per_s[FP32] * c.product_part);
    assert_close(one - adamw, expected, 1e-6 * expected);
    p.mesh.dp = 16, plan_set_number(&p, "zero", 1), p.micro_batch = 1;
    c.level[1].bytes_per_s = 1e30, c.level[0].alpha_s = c.level[1].alpha_s = 0;
    assert_true(price_of(p, &c).phase_s[PRICE_OPTIM] < 1.01 * expected / 16 + adamw);
    c.flops_per_s[FP32] = 0;
    struct price x;
    assert_ok(plan_settle(&p, 0));
    assert_fails(price_plan(&train_recipe, &p, &c, NULL, &x), E_CONFIG, "no peak in fp32", "give its tflops-fp32");
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

/* ---- offload ---- */
/* Copies that nothing hides take the link's time, there and back. Copies behind rows that are as long take no time. */
TEST(test_parking_is_copies_beside_the_rows) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    struct run r;
    struct price stays = price_of(p, &c);
    park_options(&p)->kind = PARK_ALL;
    struct price moves = price_of(p, &c);
    assert_ok(plan_settle(&p, 0));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    double seconds = (double)r.bill.parked_bytes / c.host_bytes_per_s;
    run_destroy(&r);
    assert_close(moves.phase_s[PRICE_OFFLOAD], seconds, 1e-9 * seconds);
    assert_close(moves.step_s, stays.step_s + seconds, 1e-9 * moves.step_s);
    assert_true(moves.host_bytes > 0 && moves.bytes[ROLE_ACT] < stays.bytes[ROLE_ACT]);
    c.overlap_part = 1, c.host_bytes_per_s *= 1000;
    assert_close(price_of(p, &c).phase_s[PRICE_OFFLOAD], 0, 1e-12);
    c.host_bytes_per_s = 0;
    assert_fails(price_check(&p, &c), E_CONFIG, "host-gbs=0", "--park none");
}

/* For each own element a gradient comes down and a weight goes up, in bf16; the host reads and writes weight and
 * moments in fp32, reads the gradient and writes the weight in bf16. The device does none of this. */
TEST(test_offload_is_copies_and_an_update_elsewhere) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    plan_set_number(&p, "zero", 1);
    double n = (double)gpt_n_params(&p) / 16;
    struct price stays = price_of(p, &c);
    zero_options(&p)->offload = OFFLOAD_OPTIMIZER;
    struct price moved = price_of(p, &c);
    double host_s = n * 28 / c.host_memory_bytes_per_s, link_s = n * 4 / c.host_bytes_per_s;
    assert_close(stays.phase_s[PRICE_OFFLOAD], 0, 0);
    assert_close(moved.phase_s[PRICE_OFFLOAD], host_s + link_s, 0.001 * (host_s + link_s));
    double spared_s = n * 28 / (c.memory_bytes_per_s * c.stream_part);
    assert_close(stays.phase_s[PRICE_OPTIM] - moved.phase_s[PRICE_OPTIM], spared_s, 0.01 * spared_s);
    assert_close(sum_of(&moved), moved.step_s, 1e-12 * moved.step_s);
    double window = (double)moved.host_bytes - (double)(stays.total_bytes - moved.total_bytes);
    assert_true(stays.host_bytes == 0 && window > 0 && window <= offload_options(&p)->window * (1 << 20));
    assert_close((double)moved.host_bytes - window, 12 * n, 0.01 * 12 * n);
}

/* In each of four microbatches the sums of gradients go down to the host, which adds them up and takes their norm. */
TEST(test_sums_of_gradients_come_down_as_they_are_made) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    p.micro_batch = 1, model_options(&p)->tie = 0;                   /* untied: each gradient has one source */
    plan_set_number(&p, "zero", 2), zero_options(&p)->offload = OFFLOAD_OPTIMIZER;
    double n = (double)gpt_n_params(&p) / 16, seconds = price_of(p, &c).phase_s[PRICE_OFFLOAD];
    double host_s = n * (28 + 2 + 4 * 3 * 2) / c.host_memory_bytes_per_s, link_s = n * (2 + 4 * 2) / c.host_bytes_per_s;
    assert_close(seconds, host_s + link_s, 0.001 * (host_s + link_s));
}

/* A weight shard in host memory goes up before each gather, but not after the update. ZeRO-3 gathers twice per
 * microbatch, the last block only once. */
TEST(test_offloaded_weights_go_up_before_each_gather) {
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    p.micro_batch = 1;                                               /* 4 microbatches */
    plan_set_number(&p, "zero", 3), zero_options(&p)->offload = OFFLOAD_OPTIMIZER;
    double states_s = price_of(p, &c).phase_s[PRICE_OFFLOAD];
    double weights_s = (double)gpt_n_params(&p) / 16 * 2 / c.host_bytes_per_s;
    zero_options(&p)->offload = OFFLOAD_PARAMS;
    double times = (price_of(p, &c).phase_s[PRICE_OFFLOAD] - states_s) / weights_s + 1;
    if (times < 6 || times > 8.5) fail_msg("weights go up %g times in a step", times);
}

/* On a CPU the host's memory is the rank's own, so nothing moves. Without the host's speeds there is no price. */
TEST(test_offload_needs_a_host_with_speeds) {
    struct cluster c = gpus(), cpu;
    struct plan p = plan_of(4, 1, 1);
    struct price x;
    struct search *found = calloc(1, sizeof *found);
    plan_set_number(&p, "zero", 1), zero_options(&p)->offload = OFFLOAD_OPTIMIZER;
    assert_ok(cluster_read("cpu-2core", &cpu));
    p.device = PLAN_DEVICE_CPU, p.precision = PRECISION_FP32;
    assert_close(price_of(p, &cpu).phase_s[PRICE_OFFLOAD], 0, 0);
    p.device = PLAN_DEVICE_CUDA, p.precision = PRECISION_BF16, c.host_memory_bytes_per_s = 0;
    assert_fails(search_layouts(&train_recipe, &p, 0, &c, 4, true, found), E_CONFIG, "host-memory-gbs=0",
                 "--offload none");
    assert_ok(plan_settle(&p, 0));
    assert_fails(price_plan(&train_recipe, &p, &c, NULL, &x), E_CONFIG, "host-gbs=25", "host-memory-gbs=0");
    c = gpus();
    zero_options(&p)->offload_to = OFFLOAD_TO_DISK;
    snprintf(offload_options(&p)->path, sizeof offload_options(&p)->path, "/tmp");
    assert_fails(price_plan(&train_recipe, &p, &c, NULL, &x), E_CONFIG, "offload-to=disk", "--offload-to host");
    free(found);
}

/* ---- ranks that share cores ---- */
static struct plan on_cores(int dp, int tp, int pp, int threads) {
    struct plan p = plan_of(dp, tp, pp);
    p.precision = PRECISION_FP32, p.device = PLAN_DEVICE_CPU, p.threads = threads;
    return p;
}

/* Cores share the work of all ranks: half as many cores take twice as long, there is no bubble, and phases are parts of
 * all ranks' work. */
TEST(test_cores_are_shared) {
    struct cluster two, one;
    assert_ok(cluster_read("cpu-2core", &two));
    one = two, one.cores = 1;
    static const int LAYOUTS[][3] = {{8, 1, 1}, {1, 8, 1}, {1, 1, 8}, {2, 2, 2}};
    for (int i = 0; i < 4; i++) {
        struct plan p = on_cores(LAYOUTS[i][0], LAYOUTS[i][1], LAYOUTS[i][2], 1);
        struct price x = price_of(p, &two), y = price_of(p, &one);
        assert_close(sum_of(&x), x.step_s, 1e-12 * x.step_s);
        assert_close(y.step_s, 2 * x.step_s, 1e-12 * y.step_s);
        assert_close(x.phase_s[PRICE_BUBBLE], 0, 0);
        assert_true(x.work_s < 2 * x.step_s);
        assert_close(y.work_s, x.work_s, 0);
        assert_close(y.mfu, x.mfu, 1e-12);
    }
}

/* Nothing hides exchanges: the step is the exchanges and the rows. */
TEST(test_cores_copy_what_is_exchanged) {
    struct cluster c;
    assert_ok(cluster_read("cpu-2core", &c));
    struct price x = price_of(on_cores(8, 1, 1, 1), &c);
    c.level[0].bytes_per_s /= 2, c.level[0].alpha_s *= 2;
    struct price y = price_of(on_cores(8, 1, 1, 1), &c);
    assert_close(y.step_s - y.work_s / 2, 2 * (x.step_s - x.work_s / 2), 1e-9 * x.step_s);
    c.switch_s = 1e-3;                                               /* exchanges at the step's end add no switch */
    assert_close(price_of(on_cores(8, 1, 1, 1), &c).step_s, y.step_s, 0);
    c.switch_s = 0;
    struct price z = price_of(on_cores(1, 8, 1, 1), &c);
    c.cold_s = 1e-3;                                                 /* tp: 4 exchanges per layer and microbatch */
    assert_true(price_of(on_cores(1, 8, 1, 1), &c).work_s > z.work_s + 8 * 4 * 16 * 32 * 0.99e-3);
    c.cold_s = 0, c.switch_s = 1e-3;
    assert_true(price_of(on_cores(1, 8, 1, 1), &c).step_s > z.step_s + 8 * 4 * 16 * 32 * 0.99e-3 / 2);
    double fits = price_of(on_cores(2, 1, 1, 1), &c).step_s;         /* a core per rank: no switches */
    c.switch_s = 0;
    assert_close(price_of(on_cores(2, 1, 1, 1), &c).step_s, fits, 0);
}

/* A message is copied by its sender and by its receiver: with m microbatches on two stages 4 m copies. */
TEST(test_both_ends_copy_a_message) {
    struct cluster c;
    assert_ok(cluster_read("cpu-2core", &c));
    c.cores = 1;
    struct plan p = on_cores(1, 1, 2, 1);
    double bytes = 4. * (double)(p.micro_batch * p.seq * p.hidden), m = (double)(p.global_batch / p.micro_batch);
    struct price x = price_of(p, &c);
    double send_s = wire_seconds(&c, COMM_SEND, bytes, 2, 1, 1);
    assert_close(x.phase_s[PRICE_PP], 4 * m * send_s, 1e-9 * x.step_s);
    c.switch_s = 1e-3;                                               /* two ranks, one core */
    assert_close(price_of(p, &c).phase_s[PRICE_PP], 4 * m * (send_s + 1e-3), 1e-9 * x.step_s);
    c.switch_s = 0, c.cold_s = 1e-3;                                 /* slower rows are work */
    struct price y = price_of(p, &c);
    assert_close(y.phase_s[PRICE_PP], 4 * m * (send_s + 1e-3), 1e-9 * x.step_s);
    assert_true(y.work_s - x.work_s > 4 * m * 0.99e-3 && y.step_s - x.step_s > y.work_s - x.work_s - 1e-9);
    c.cores = 2;
    double own = price_of(p, &c).work_s;                             /* a core per rank */
    c.cold_s = 0;
    assert_close(price_of(p, &c).work_s, own, 0);
}

/* The second stage of an encoder-decoder waits for both streams. */
TEST(test_two_streams_are_one_message) {
    struct cluster c;
    assert_ok(cluster_read("cpu-2core", &c));
    c.cores = 1;
    struct plan p = on_cores(1, 1, 2, 1);
    assert_ok(recipe_arch(&p, "t5"));
    struct t5_lengths l = t5_lengths(&p);
    double row = 4. * (double)(p.micro_batch * p.hidden), m = (double)(p.global_batch / p.micro_batch);
    double send_s = wire_seconds(&c, COMM_SEND, row * (double)l.encoder, 2, 1, 1) +
                    wire_seconds(&c, COMM_SEND, row * (double)l.decoder, 2, 1, 1);
    struct price x = price_of(p, &c);
    assert_close(x.phase_s[PRICE_PP], 4 * m * send_s, 1e-9 * x.step_s);
}

/* Two threads halve the chain of a single rank. With threads 0 a rank takes all cores that are free. */
TEST(test_threads_divide_a_chain) {
    struct cluster c;
    assert_ok(cluster_read("cpu-2core", &c));
    c.launch_s = 0;
    struct price one = price_of(on_cores(1, 1, 1, 1), &c), two = price_of(on_cores(1, 1, 1, 2), &c);
    assert_close(one.step_s, 2 * two.step_s, 1e-12);
    assert_close(one.work_s, two.work_s, 1e-12);
    assert_close(one.step_s, one.work_s, 1e-12);
    assert_close(one.mfu, two.mfu, 1e-12);
    assert_close(price_of(on_cores(1, 1, 1, 0), &c).step_s, two.step_s, 0);      /* one per core */
}

TESTS(unit_test(test_phases_add_up_to_the_step), unit_test(test_bytes_are_the_run_s), unit_test(test_one_rank),
      unit_test(test_1f1b_is_about_its_closed_form), unit_test(test_laws), unit_test(test_infinite_wires),
      unit_test(test_sums_over_replicas_lie_where_replicas_do),
      unit_test(test_what_comes_now_and_then_is_priced_by_the_step), unit_test(test_what_hides_is_slower),
      unit_test(test_one_forward_hides_what_zero_1_gathers), unit_test(test_what_zero_shards),
      unit_test(test_packing_is_work_in_memory), unit_test(test_codes_of_weights_are_less_wire_and_more_work),
      unit_test(test_a_replay_has_its_exchanges), unit_test(test_an_update_by_muon_takes_its_products),
      unit_test(test_price_refuses),
      unit_test(test_sums_of_gradients_come_down_as_they_are_made), unit_test(test_parking_is_copies_beside_the_rows),
      unit_test(test_offload_is_copies_and_an_update_elsewhere),
      unit_test(test_offloaded_weights_go_up_before_each_gather), unit_test(test_offload_needs_a_host_with_speeds),
      unit_test(test_cores_are_shared), unit_test(test_cores_copy_what_is_exchanged),
      unit_test(test_both_ends_copy_a_message), unit_test(test_two_streams_are_one_message),
      unit_test(test_threads_divide_a_chain))
