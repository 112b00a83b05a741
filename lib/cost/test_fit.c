/* ranks: 1  device: cpu */
#include "lib/cost/fit.h"
#include "lib/cost/op_time.h"
#include "lib/cost/wire_time.h"
#include "lib/ops/cost.h"
#include "tests/test.h"

enum { MAX_TIMED = 64 };

static struct cluster core(void) {
    return (struct cluster){.flops_per_s = {[FP32] = 1e11}, .product_part = 0.8, .product_m0 = 5, .product_n0 = 9,
                            .product_k0 = 20, .launch_s = 3e-6, .memory_bytes_per_s = 2e10, .stream_part = 1,
                            .attention_forward_part = 1, .attention_backward_part = 1, .n_levels = 1,
                            .level = {{"node", INT64_MAX, 7e9, 4e-6, {0}}}};
}

static int all_products(const struct cluster *c, struct timed_product *out) {
    int n = 0;
    for (int64_t m = 32; m <= 1024; m *= 4)
        for (int64_t columns = 32; columns <= 1024; columns *= 4)
            for (int64_t k = 32; k <= 1024; k *= 4) {
                struct cost cost = {0};
                cost_product(&cost, m, columns, k, 1);
                out[n++] = (struct timed_product){{m, columns, k, 1},
                                                  op_seconds(c, "linear", FP32, &cost, ROW_FORWARD).total};
            }
    return n;
}

/* The fit to times that the model computed gives the model's constants back. */
TEST(test_products_give_the_constants_back) {
    struct cluster c = core(), found = {.name = ""};
    struct timed_product p[MAX_TIMED];
    int n = all_products(&c, p);
    assert_close(fit_products(p, n, 1e11, &found), 0, 1e-9);
    assert_close(found.product_part, c.product_part, 1e-7);
    assert_close(found.product_m0, c.product_m0, 1e-5);
    assert_close(found.product_n0, c.product_n0, 1e-5);
    assert_close(found.product_k0, c.product_k0, 1e-5);
    assert_close(found.launch_s, c.launch_s, 1e-12);
}

/* With scattered times, the sum of the predicted times is still the sum of the measured times. */
TEST(test_the_sum_is_right) {
    struct cluster c = core(), found = {.flops_per_s = {[FP32] = 1e11}};
    struct timed_product p[MAX_TIMED];
    int n = all_products(&c, p);
    double measured_s = 0, predicted_s = 0;
    for (int i = 0; i < n; i++) p[i].seconds *= i % 3 ? 1 : 2;
    fit_products(p, n, 1e11, &found);
    for (int i = 0; i < n; i++) {
        struct cost cost = {0};
        cost_product(&cost, p[i].product.m, p[i].product.n, p[i].product.k, 1);
        found.memory_bytes_per_s = found.stream_part = 1;
        predicted_s += op_seconds(&found, "linear", FP32, &cost, ROW_FORWARD).total;
        measured_s += p[i].seconds;
    }
    assert_close(predicted_s, measured_s, 1e-9 * measured_s);
}

/* A constant that would be negative becomes 0, and the others are the best fit without it. */
TEST(test_none_is_negative) {
    const double known[][2] = {{1, 1}, {2, 1}, {4, 1}}, seconds[] = {0.5, 1.5, 3.5};     /* t = x - 0.5 */
    double x[2];
    fit_relative(*known, seconds, 3, 2, x);
    assert_close(x[1], 0, 0);
    double slope = (1 / 0.5 + 2 / 1.5 + 4 / 3.5) / (1 / 0.25 + 4 / 2.25 + 16 / 12.25);
    assert_close(x[0], slope, 1e-12);
}

TEST(test_rates_leave_the_launch_out) {
    const double bytes[] = {1e4, 1e5, 1e6};
    double seconds[3], rate;
    for (int i = 0; i < 3; i++) seconds[i] = bytes[i] / 8e9 + 3e-6;
    assert_close(fit_rate(bytes, seconds, 3, 3e-6, &rate), 0, 1e-12);
    assert_close(rate, 8e9, 1);
    assert_true(isnan(fit_rate(bytes, seconds, 0, 3e-6, &rate)));
    assert_close(rate, 0, 0);
    /* the time is shorter than a launch, so there is no rate */
    fit_rate(bytes, seconds, 1, 1, &rate);
    assert_close(rate, 0, 0);
}

TEST(test_wires_give_the_level_back) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_SEND};
    struct cluster c = core(), found = c;
    struct timed_wire w[MAX_TIMED];
    int n = 0;
    for (int i = 0; i < 3; i++)
        for (double bytes = 1024; bytes < 1e7; bytes *= 4)
            w[n++] = (struct timed_wire){OPS[i], bytes, wire_seconds(&c, OPS[i], bytes, 2, 1, 1)};
    found.level[0] = (struct level){.alpha_s = 0};
    fit_wires(w, n, 2, &found.level[0]);
    assert_close(found.level[0].bytes_per_s, 7e9, 10);
    assert_close(found.level[0].alpha_s, 4e-6, 1e-12);
    for (int i = 0; i < found.level[0].part_by_size.n; i++) assert_close(found.level[0].part_by_size.is[i], 1, 1e-8);
    assert_int_equal(found.level[0].part_by_size.n, 5);
}

TESTS(unit_test(test_products_give_the_constants_back), unit_test(test_the_sum_is_right),
      unit_test(test_none_is_negative), unit_test(test_rates_leave_the_launch_out),
      unit_test(test_wires_give_the_level_back))
