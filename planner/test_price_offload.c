/* ranks: 1  device: cpu
 *
 * The price of states and weights in host memory. */
#include "models/gpt/gpt.h"
#include "park/park.h"
#include "planner/test_price.h"

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

TESTS(unit_test(test_sums_of_gradients_come_down_as_they_are_made), unit_test(test_parking_is_copies_beside_the_rows),
      unit_test(test_offload_is_copies_and_an_update_elsewhere),
      unit_test(test_offloaded_weights_go_up_before_each_gather), unit_test(test_offload_needs_a_host_with_speeds))
