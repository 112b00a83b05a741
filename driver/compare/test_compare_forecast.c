/* ranks: 1  device: cpu */
#include "driver/compare/compare_forecast.h"
#include "driver/recipe.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

static struct compare_row ran(double first_s, double second_s, double work_s, double predicted_s,
                              double predicted_work_s) {
    struct compare_row row = {.strategy = "x", .tokens_per_s = 100 / first_s, .step_s = first_s,
                              .predicted_step_s = predicted_s, .predicted_work_s = predicted_work_s};
    compare_row_add_pass(&row, first_s, work_s);
    if (second_s > 0) compare_row_add_pass(&row, second_s, work_s);
    return row;
}

TEST(test_passes_are_meaned) {
    struct compare_row row = ran(1, 2, 6, 1, 1);
    compare_row_add_pass(&row, 3, 9);
    assert_close(row.step_s, 2, 1e-15);
    assert_close(row.work_s, 7, 1e-15);
    assert_close(row.tokens_per_s, 50, 1e-12);
    assert_close(compare_row_spread(&row), 1, 1e-15);
    row = ran(1, 0, 6, 1, 1);
    assert_close(compare_row_spread(&row), 0, 0);
}

/* Spreads are 2, 4 and 6%, so pairs that differ by more than 8% count. The second and third differ by less. The first
 * is predicted to be slower than the second, which is wrong, and faster than the third. */
TEST(test_forecast_counts_pairs_beyond_the_noise) {
    struct compare_row rows[] = {ran(0.99, 1.01, 1, 1.30, 1.1), ran(1.176, 1.224, 1, 1.20, 0.8),
                                 ran(1.213, 1.288, 1, 1.50, 1.3), {.strategy = "refused", .status = E_CONFIG},
                                 ran(0.5, 0.5, 1, 0, 0)};
    struct compare_forecast f = compare_forecast_of(rows, 5);
    assert_int_equal(f.n, 3);
    assert_close(f.noise, 0.04, 1e-12);
    assert_int_equal(f.pairs, 2);
    assert_int_equal(f.in_order, 1);
    assert_close(f.regret, 0.2, 1e-12);
    assert_close(f.step_error, 1.5 / 1.2505 - 1, 1e-12);
    assert_close(f.work_error, 0.2, 1e-12);
    assert_int_equal(compare_faster(rows, 3, &rows[2], false), 2);
    assert_int_equal(compare_faster(rows, 3, &rows[0], true), 1);
}

TEST(test_forecast_in_words) {
    struct compare_row rows[] = {ran(1, 0, 1, 1.1, 1), ran(2, 0, 1, 1.8, 1)};
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    compare_forecast_print(f, rows, 1);
    fflush(f);
    assert_int_equal(bytes, 0);
    compare_forecast_print(f, rows, 2);
    fclose(f);
    assert_non_null(strstr(text, "median error 10.0% of a step, 0.0% of the work"));
    assert_non_null(strstr(text, "use --repeat 2"));
    free(text);
}

/* A prediction equals the planner's price. If the planner refuses, the row has no prediction. */
TEST(test_a_row_is_predicted_or_goes_without) {
    struct plan p;
    struct cluster c;
    struct compare_row row = {.strategy = ""};
    assert_ok(recipe_plan(&p));
    p.layers = 2, p.hidden = 32, p.heads = 4, p.seq = 16, p.vocab = 64, p.global_batch = 4, p.micro_batch = 1;
    p.mesh.dp = 2;
    assert_ok(plan_settle(&p, 2));
    assert_ok(cluster_read("cpu-2core", &c));
    compare_predict(&p, &c, false, &row);
    assert_true(row.predicted_step_s > 0 && row.predicted_work_s > 0);
    assert_true(row.predicted_work_s <= 2 * row.predicted_step_s * (1 + 1e-12));
    c.flops_per_s[FP32] = 0, row = (struct compare_row){.strategy = ""};
    test_stderr_keep();
    compare_predict(&p, &c, false, &row);
    assert_non_null(strstr(test_stderr_text(), "its step is not predicted: cpu-2core has no peak in fp32"));
    assert_close(row.predicted_step_s, 0, 0);
}

TESTS(unit_test(test_passes_are_meaned), unit_test(test_forecast_counts_pairs_beyond_the_noise),
      unit_test(test_forecast_in_words), unit_test(test_a_row_is_predicted_or_goes_without))
