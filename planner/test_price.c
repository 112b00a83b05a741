/* ranks: 1  device: cpu */
#include "driver/recipe.h"
#include "gpt/gpt.h"
#include "lib/cost/wire_time.h"
#include "planner/search.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct plan plan_of(int dp, int tp, int pp) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    snprintf(p.model, sizeof p.model, "priced");
    p.layers = 16, p.hidden = 1024, p.heads = 16, p.seq = 1024, p.vocab = 8192, p.global_batch = 64, p.micro_batch = 2;
    p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    p.mesh.dp = dp ? dp : 1, p.mesh.tp = tp ? tp : 1, p.mesh.pp = pp ? pp : 1;
    return p;
}
static struct price price_of(struct plan p, const struct cluster *c) {
    struct price price;
    assert_ok(plan_settle(&p, 0));
    assert_ok(price_plan(&train_recipe, &p, c, NULL, &price));
    return price;
}
static struct cluster gpus(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    return c;
}
static double sum_of(const struct price *p) {
    double sum = 0;
    for (int i = 0; i < N_PRICE_PHASES; i++) sum += p->phase_s[i];
    return sum;
}

/* Layouts of every kind, one after another; false: there are no more. */
static bool layout(int i, struct plan *p) {
    static const struct layout { int dp, tp, pp, cp, ep, schedule, chunks, zero, recompute, sp, offload; } LAYOUTS[] = {
        {.dp = 1}, {.dp = 16, .zero = 1}, {.dp = 8, .zero = 3}, {.tp = 8, .sp = 1, .recompute = RECOMPUTE_SELECTIVE},
        {.tp = 16}, {.dp = 2, .tp = 4, .pp = 4, .recompute = RECOMPUTE_FULL},
        {.pp = 4, .schedule = SCHEDULE_INTERLEAVED, .chunks = 4},
        {.dp = 4, .tp = 2, .pp = 2, .schedule = SCHEDULE_ZB_H1, .zero = 2, .sp = 1},
        {.tp = 2, .pp = 8, .schedule = SCHEDULE_ZB_V}, {.cp = 4}, {.dp = 4, .tp = 2, .ep = 4, .zero = 1},
        {.dp = 2, .cp = 2, .tp = 2, .pp = 2, .ep = 4, .zero = 1, .sp = 1, .recompute = RECOMPUTE_FULL},
        {.dp = 4, .pp = 2, .zero = 1, .offload = OFFLOAD_OPTIMIZER}, {.dp = 8, .zero = 3, .offload = OFFLOAD_PARAMS}};
    if (i == sizeof LAYOUTS / sizeof *LAYOUTS) return false;
    const struct layout *l = &LAYOUTS[i];
    *p = plan_of(l->dp, l->tp, l->pp);
    p->mesh.cp = l->cp, p->mesh.ep = l->ep;
    if (l->ep) p->experts = 8, p->experts_per_token = 2;
    pp_options(p)->schedule = l->schedule ? l->schedule : SCHEDULE_1F1B;
    pp_options(p)->chunks = l->chunks ? l->chunks : 1;
    zero_options(p)->stage = l->zero, recompute_options(p)->kind = l->recompute, tp_options(p)->sp = l->sp;
    zero_options(p)->offload = l->offload;
    return true;
}

static void test_phases_add_up_to_the_step(void **state) {
    (void)state;
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
static void test_bytes_are_the_run_s(void **state) {
    (void)state;
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
static void test_one_rank(void **state) {
    (void)state;
    struct cluster c = gpus();
    struct plan p = plan_of(1, 1, 1);
    struct price x = price_of(p, &c);
    for (int k = PRICE_TP; k <= PRICE_GATHER; k++) assert_close(x.phase_s[k], 0, 1e-15);
    p.global_batch *= 2;
    double twice = price_of(p, &c).step_s;
    assert_true(twice > 1.9 * x.step_s && twice < 2 * x.step_s);
}

/* 1F1B: m max S + (sum S - max S), where wires take no time and backward is a multiple of forward. The head, which is
 * not, makes the last stage the longest. */
static void test_1f1b_is_about_its_closed_form(void **state) {
    (void)state;
    struct cluster c = gpus();
    struct price x = price_of(plan_of(1, 1, 4), &c);
    double sum = 0, most = 0, m = 32;
    for (int i = 0; i < 4; i++) sum += x.stage[i].s / m, most = fmax(most, x.stage[i].s / m);
    assert_int_equal(x.busiest, 3);
    assert_close(x.stage[x.busiest].s + x.phase_s[PRICE_BUBBLE], m * most + (sum - most), 0.01 * m * most);
}

/* Laws: more of anything never makes a step longer, and makes some shorter. */
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
static void test_laws(void **state) {
    (void)state;
    check_law(twice_the_peak, "twice the peak");
    check_law(twice_the_memory_s_speed, "twice the memory's speed");
    check_law(faster_nodes, "faster nodes");
    check_law(faster_network, "a faster network");
    check_law(half_the_latency, "half the latency");
    check_law(one_node_of_16, "one node of 16");
    check_law(twice_the_host_s_speed, "twice the host's speed");
}

/* Wires of no length leave what is computed, the bubble and the update. */
static void test_infinite_wires(void **state) {
    (void)state;
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

/* Nothing hides anything, and nothing is slowed down. */
static struct cluster bare(void) {
    struct cluster c = gpus();
    c.overlap_part = 0, c.overlap_slowdown = 0;
    return c;
}

/* tp fills the nodes, so every sum over replicas goes through the network. */
static void test_sums_over_replicas_lie_where_replicas_do(void **state) {
    (void)state;
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
    assert_close(x.phase_s[PRICE_DP], sums, 1e-9 * sums);            /* of two: 2 (n-1)/n = 1 */
    run_destroy(&r);
}

/* A sum that backward hides costs overlap_slowdown of its time. */
static void test_what_hides_is_slower(void **state) {
    (void)state;
    struct cluster c = bare();
    double all = price_of(plan_of(16, 1, 1), &c).phase_s[PRICE_DP];
    c.overlap_part = 1;
    assert_close(price_of(plan_of(16, 1, 1), &c).phase_s[PRICE_DP], 0, 1e-15);
    c.overlap_slowdown = 0.25;
    assert_close(price_of(plan_of(16, 1, 1), &c).phase_s[PRICE_DP], 0.25 * all, 1e-9 * all);
}

/* Zero 1 gathers beside a forward of one microbatch, however many there are: what that does not hide shows. */
static void test_one_forward_hides_what_zero_1_gathers(void **state) {
    (void)state;
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    zero_options(&p)->stage = 1;
    p.micro_batch = 1;                                               /* of 4 */
    struct price none = price_of(p, &c);
    c.overlap_part = 1;
    for (int l = 0; l < c.n_levels; l++) c.level[l].bytes_per_s /= 64, c.level[l].alpha_s *= 64;
    c.call_s *= 64;
    struct price slow = price_of(p, &c);
    double gathers = 64 * none.phase_s[PRICE_GATHER];
    assert_true(gathers > none.forward_s);
    assert_close(slow.phase_s[PRICE_GATHER], gathers - none.forward_s / 4, 1e-9 * gathers);
}

/* Zero 1: each of 16 replicas updates a sixteenth. Zero 3 gathers twice a microbatch what zero 1 gathers once a step,
 * but for the block at the turn; the tied embedding, at both ends, more often. */
static void test_what_zero_shards(void **state) {
    (void)state;
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    p.micro_batch = 1;                                               /* 4 microbatches */
    c.call_s = 0, c.level[0].alpha_s = c.level[1].alpha_s = 0;
    struct price whole = price_of(p, &c);
    zero_options(&p)->stage = 1;
    struct price one = price_of(p, &c);
    zero_options(&p)->stage = 3;
    struct price three = price_of(p, &c);
    assert_close(one.phase_s[PRICE_OPTIM], whole.phase_s[PRICE_OPTIM] / 16, 0.02 * one.phase_s[PRICE_OPTIM]);
    double ratio = three.phase_s[PRICE_GATHER] / one.phase_s[PRICE_GATHER];
    if (ratio < 6 || ratio > 8.5) fail_msg("zero 3 gathers %g times as much", ratio);
}

/* Of each own element a gradient comes down and a weight goes up, in bf16; the host reads and writes weight and moments
 * in fp32, reads the gradient and writes the weight in bf16, and the device does none of it. */
static void test_offload_is_copies_and_an_update_elsewhere(void **state) {
    (void)state;
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    zero_options(&p)->stage = 1;
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
    assert_true(stays.host_bytes == 0 && moved.host_bytes == stays.total_bytes - moved.total_bytes);
    assert_close((double)moved.host_bytes, 12 * n, 0.01 * 12 * n);
}

/* A shard of weights that lives in host memory goes up before each gather, twice a microbatch but for the block at the
 * turn, and not after the update. */
static void test_offloaded_weights_go_up_before_each_gather(void **state) {
    (void)state;
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    p.micro_batch = 1;                                               /* 4 microbatches */
    zero_options(&p)->stage = 3, zero_options(&p)->offload = OFFLOAD_OPTIMIZER;
    double states_s = price_of(p, &c).phase_s[PRICE_OFFLOAD];
    double weights_s = (double)gpt_n_params(&p) / 16 * 2 / c.host_bytes_per_s;
    zero_options(&p)->offload = OFFLOAD_PARAMS;
    double times = (price_of(p, &c).phase_s[PRICE_OFFLOAD] - states_s) / weights_s + 1;
    if (times < 6 || times > 8.5) fail_msg("weights go up %g times in a step", times);
}

/* Where the host's memory is the rank's nothing moves; and no speed of the host is no price. */
static void test_offload_needs_a_host_with_speeds(void **state) {
    (void)state;
    struct cluster c = gpus(), cpu;
    struct plan p = plan_of(4, 1, 1);
    struct price x;
    struct search *found = calloc(1, sizeof *found);
    zero_options(&p)->stage = 1, zero_options(&p)->offload = OFFLOAD_OPTIMIZER;
    assert_ok(cluster_read("cpu-2core", &cpu));
    p.device = PLAN_DEVICE_CPU, p.precision = PRECISION_FP32;
    assert_close(price_of(p, &cpu).phase_s[PRICE_OFFLOAD], 0, 0);
    p.device = PLAN_DEVICE_CUDA, p.precision = PRECISION_BF16, c.host_memory_bytes_per_s = 0;
    assert_fails(search_layouts(&train_recipe, &p, 0, &c, 4, true, found), E_CONFIG, "host-memory-gbs=0",
                 "--offload none");
    assert_ok(plan_settle(&p, 0));
    assert_fails(price_plan(&train_recipe, &p, &c, NULL, &x), E_CONFIG, "host-gbs=25", "host-memory-gbs=0");
    free(found);
}

/* What a profile is held against adds up to the stage: all microbatches, replays too. With tp, what is started in one
 * row and waited for in another is in neither. */
static void test_rows_of_a_profile_add_up_to_the_stage(void **state) {
    (void)state;
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
        assert_ok(price_profile(&train_recipe, &r, &c, &f));
        for (int s = 0; s < r.program.n_steps; s++)
            for (int k = 0; k < ROW_WAIT; k++) sum += f.row_s[s][k];
        if (i / 2 == 0) assert_close(sum, x.stage[0].s, 1e-9 * x.step_s);
        assert_true(sum > 0.9 * x.stage[0].s && sum <= x.stage[0].s * (1 + 1e-9));
        assert_close(f.update_s, price_update_bytes(&r.program) / (c.memory_bytes_per_s * c.stream_part), 1e-12);
        free(f.row_s);
        run_destroy(&r);
    }
}

/* Each gradient, in bf16, is read and written into a bucket; a sixteenth comes back, is read with what it is added to,
 * and written. */
static void test_packing_is_work_in_memory(void **state) {
    (void)state;
    struct cluster c = bare();
    struct plan p = plan_of(16, 1, 1);
    double whole_s = price_of(p, &c).phase_s[PRICE_MEMORY], n = (double)gpt_n_params(&p);
    zero_options(&p)->stage = 1;
    double packing_s = n * 2 * (2 + 3.0 / 16) / (c.memory_bytes_per_s * c.stream_part);
    assert_close(price_of(p, &c).phase_s[PRICE_MEMORY] - whole_s, packing_s, 0.01 * packing_s);
}

/* What is run again exchanges again. */
static void test_a_replay_has_its_exchanges(void **state) {
    (void)state;
    struct cluster c = bare(), fast = bare();
    struct plan p = plan_of(1, 8, 1);
    recompute_options(&p)->kind = RECOMPUTE_FULL;
    fast.level[0].bytes_per_s = 1e30;
    double slow = price_of(p, &c).phase_s[PRICE_REPLAY];
    assert_true(price_of(p, &fast).phase_s[PRICE_REPLAY] < 0.95 * slow);
}

/* Stages between the ends that need not be compiled are priced as if they were. */
static void test_like_stages_are_like(void **state) {
    (void)state;
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
    for (int layers = 16; layers <= 32; layers++)                    /* also where the stages have not as many */
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

/* A stage that is compiled from what another plan has left is as if it were compiled by itself. */
static void test_stages_from_a_stem_are_the_run_s(void **state) {
    (void)state;
    struct plan p;
    struct run_stem stem = {.n_stages = 0};
    for (int i = 0; layout(i, &p); i++)
        for (int keep = 0; keep < 6; keep++) {
            int n = p.mesh.pp ? (int)p.mesh.pp : 1;
            struct plan q = p;
            zero_options(&q)->stage = n > 1 ? keep % 2 : keep % 4, recompute_options(&q)->kind = keep / 2;
            if (zero_options(&q)->stage < 3 && zero_options(&q)->offload) zero_options(&q)->offload = OFFLOAD_OPTIMIZER;
            if (zero_options(&q)->stage == 0) zero_options(&q)->offload = OFFLOAD_NONE;
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

/* The time line is the step without its end, and its boxes are each stage's own work. */
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

static void test_time_line_is_the_step_s(void **state) {
    (void)state;
    struct cluster c = gpus();
    struct plan p;
    for (int i = 0; layout(i, &p); i++) check_time_line(p, &c);
    struct price x = price_of(plan_of(1, 1, 4), &c);
    assert_true(x.stage[3].s > 1.02 * x.stage[1].s);                 /* the head: stages are not alike */
    check_time_line(plan_of(1, 1, 4), &c);
}

static void test_price_refuses(void **state) {
    (void)state;
    struct cluster c = gpus();
    struct plan p = plan_of(1, 1, 1);
    struct price x;
    c.flops_per_s[BF16] = 0;
    assert_ok(plan_settle(&p, 0));
    assert_fails(price_plan(&train_recipe, &p, &c, NULL, &x), E_CONFIG, "dgx-a100 has no peak in bf16",
                 "give its tflops");
}

/* ---- ranks that share cores ---- */
static struct plan on_cores(int dp, int tp, int pp, int threads) {
    struct plan p = plan_of(dp, tp, pp);
    p.precision = PRECISION_FP32, p.device = PLAN_DEVICE_CPU, p.threads = threads;
    return p;
}

/* All ranks' work, dealt out: half as many cores take twice as long, nobody waits for a stage, and phases are shares of
 * all. */
static void test_cores_are_shared(void **state) {
    (void)state;
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

/* What is exchanged is work that nothing hides: the step is that and the rows. */
static void test_cores_copy_what_is_exchanged(void **state) {
    (void)state;
    struct cluster c;
    assert_ok(cluster_read("cpu-2core", &c));
    struct price x = price_of(on_cores(8, 1, 1, 1), &c);
    c.level[0].bytes_per_s /= 2, c.level[0].alpha_s *= 2;
    struct price y = price_of(on_cores(8, 1, 1, 1), &c);
    assert_close(y.step_s - y.work_s / 2, 2 * (x.step_s - x.work_s / 2), 1e-9 * x.step_s);
    c.switch_s = 1e-3;                                               /* sums at the end wait for each other */
    assert_close(price_of(on_cores(8, 1, 1, 1), &c).step_s, y.step_s, 0);
    c.switch_s = 0;
    struct price z = price_of(on_cores(1, 8, 1, 1), &c);
    c.cold_s = 1e-3;                                                 /* tp: in rows, four a layer and microbatch */
    assert_true(price_of(on_cores(1, 8, 1, 1), &c).work_s > z.work_s + 8 * 4 * 16 * 32 * 0.99e-3);
    c.cold_s = 0, c.switch_s = 1e-3;
    assert_true(price_of(on_cores(1, 8, 1, 1), &c).step_s > z.step_s + 8 * 4 * 16 * 32 * 0.99e-3 / 2);
    double fits = price_of(on_cores(2, 1, 1, 1), &c).step_s;         /* a core each: none is handed over */
    c.switch_s = 0;
    assert_close(price_of(on_cores(2, 1, 1, 1), &c).step_s, fits, 0);
}

/* A message is copied by who sends it and by who receives it: with m microbatches on two stages 4 m copies. */
static void test_both_ends_copy_a_message(void **state) {
    (void)state;
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
    c.switch_s = 0, c.cold_s = 1e-3;                                 /* which is work */
    struct price y = price_of(p, &c);
    assert_close(y.phase_s[PRICE_PP], 4 * m * (send_s + 1e-3), 1e-9 * x.step_s);
    assert_true(y.work_s - x.work_s > 4 * m * 0.99e-3 && y.step_s - x.step_s > y.work_s - x.work_s - 1e-9);
    c.cores = 2;
    double own = price_of(p, &c).work_s;                             /* a core each */
    c.cold_s = 0;
    assert_close(price_of(p, &c).work_s, own, 0);
}

/* One rank of two threads is its own chain; fewer ranks than cores leave cores alone. */
static void test_threads_divide_a_chain(void **state) {
    (void)state;
    struct cluster c;
    assert_ok(cluster_read("cpu-2core", &c));
    c.launch_s = 0;
    struct price one = price_of(on_cores(1, 1, 1, 1), &c), two = price_of(on_cores(1, 1, 1, 2), &c);
    assert_close(one.step_s, 2 * two.step_s, 1e-12);
    assert_close(one.work_s, two.work_s, 1e-12);
    assert_close(one.step_s, one.work_s, 1e-12);
    assert_close(one.mfu, two.mfu, 1e-12);
    assert_close(price_of(on_cores(1, 1, 1, 0), &c).step_s, two.step_s, 0);      /* as many as there are */
}

TESTS(unit_test(test_cores_are_shared), unit_test(test_cores_copy_what_is_exchanged),
      unit_test(test_both_ends_copy_a_message), unit_test(test_threads_divide_a_chain),
      unit_test(test_phases_add_up_to_the_step), unit_test(test_bytes_are_the_run_s), unit_test(test_one_rank),
      unit_test(test_1f1b_is_about_its_closed_form), unit_test(test_laws), unit_test(test_infinite_wires),
      unit_test(test_sums_over_replicas_lie_where_replicas_do), unit_test(test_what_hides_is_slower),
      unit_test(test_one_forward_hides_what_zero_1_gathers), unit_test(test_what_zero_shards),
      unit_test(test_offload_is_copies_and_an_update_elsewhere),
      unit_test(test_offloaded_weights_go_up_before_each_gather), unit_test(test_offload_needs_a_host_with_speeds),
      unit_test(test_rows_of_a_profile_add_up_to_the_stage),
      unit_test(test_packing_is_work_in_memory), unit_test(test_a_replay_has_its_exchanges),
      unit_test(test_like_stages_are_like), unit_test(test_stages_from_a_stem_are_the_run_s),
      unit_test(test_time_line_is_the_step_s), unit_test(test_price_refuses))
