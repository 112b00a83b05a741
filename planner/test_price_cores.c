/* ranks: 1  device: cpu
 *
 * Ranks that share cores. */
#include "lib/cost/wire_time.h"
#include "models/t5/t5.h"
#include "planner/test_price.h"

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

TESTS(unit_test(test_cores_are_shared), unit_test(test_cores_copy_what_is_exchanged),
      unit_test(test_both_ends_copy_a_message), unit_test(test_two_streams_are_one_message),
      unit_test(test_threads_divide_a_chain))
