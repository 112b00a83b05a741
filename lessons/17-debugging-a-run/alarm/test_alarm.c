/* ranks: 1  device: cpu
 *
 * One claim per test, with tensors of a few elements. */
#include "oracle/verdict.h"
#include "tests/test.h"

enum { N = 6 };

static struct whole tensor(double *x) {
    struct box b = {.n_axes = 2, .of = {2, 3}, .n = {2, 3}};
    return (struct whole){.name = "h.0.weight.grad", .box = b, .x = x, .n = N};
}

/* The verdict on x with reference y, if rounding explains an error of `scale`. */
static struct checked judged(double *x, double *y, const double *slack, double scale) {
    struct whole run = tensor(x), reference = tensor(y);
    struct checked c = {.step = 1, .name = run.name, .phase = "backward", .scale = scale};
    verdict_of(&run, &reference, slack, &c);
    return c;
}

TEST(test_alarm_error_is_that_of_the_worst_element) {
    double y[N] = {1, -4, 2, 0.5, 0, 3}, x[N] = {1, -4, 2.5, 0.5, -1, 3.25};
    int64_t at = -1;
    assert_close(whole_difference(x, y, NULL, N, &at), 0.25, 1e-15);      /* an error of 1, a maximum of 4 */
    assert_int_equal(at, 4);
    assert_close(whole_difference(y, x, NULL, N, NULL), 0.25, 1e-15);
    for (int i = 0; i < N; i++) x[i] *= 1024, y[i] *= 1024;
    assert_close(whole_difference(x, y, NULL, N, &at), 0.25, 1e-15);
    y[1] = -8192;
    assert_close(whole_difference(x, y, NULL, N, &at), 0.5, 1e-15);       /* the largest element may be negative */
    assert_int_equal(at, 1);
}

TEST(test_alarm_of_zeros_is_not_divided) {
    double zero[N] = {0}, x[N] = {0, 1e-3, 0, -2e-3, 0, 0};
    int64_t at = -1;
    assert_close(whole_difference(x, zero, NULL, N, &at), 2e-3, 1e-18);
    assert_int_equal(at, 3);
    assert_close(whole_difference(zero, zero, NULL, N, &at), 0, 0);
    assert_int_equal(judged(zero, zero, NULL, 0).verdict, TENSOR_RIGHT);
}

TEST(test_alarm_slack_is_of_each_element) {
    double y[N] = {2, 2, 2, 2, 2, 2}, x[N] = {2, 2.5, 2, 2.25, 2, 2}, slack[N] = {0, 0.5, 0, 0, 0, 0};
    int64_t at = -1;
    assert_close(whole_difference(x, y, slack, N, &at), 0.125, 1e-15);
    assert_int_equal(at, 3);
    slack[3] = 1;
    assert_close(whole_difference(x, y, slack, N, &at), 0, 0);            /* a negative difference is 0 */
    x[0] = 2.25, slack[0] = 0;
    assert_close(whole_difference(x, y, slack, N, NULL), 0.125, 1e-15);
    assert_int_equal(judged(x, y, slack, 1e-3).verdict, TENSOR_WRONG);
    slack[0] = 0.25;
    assert_int_equal(judged(x, y, slack, 1e-3).verdict, TENSOR_RIGHT);
}

TEST(test_alarm_what_is_no_number_is_wrong) {
    for (int i = 0; i < N; i++) {
        double y[N] = {1, 2, 3, 4, 5, 6}, x[N] = {1, 2, 3, 4, 5, 6};
        int64_t at = -1;
        x[i] = NAN;
        assert_true(isinf(whole_difference(x, y, NULL, N, &at)));
        assert_int_equal(at, i);
        struct checked c = judged(x, y, NULL, 1);
        assert_int_equal(c.verdict, TENSOR_WRONG);
        assert_int_equal(c.at, i);
    }
    double y[N] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(judged(y, y, NULL, NAN).verdict != TENSOR_RIGHT, 1);  /* a NaN scale explains no error */
}

TEST(test_alarm_unit_is_the_rounding) {
    const double s = 1.0 / 1024;
    double y[N] = {4, 1, 1, 1, 1, 1}, x[N] = {4, 1, 1, 1, 1, 1};
    x[2] = 1 + 4 * 8 * s;                                                 /* e is exactly 8 s */
    struct checked c = judged(x, y, NULL, s);
    assert_int_equal(c.verdict, TENSOR_RIGHT);
    assert_close(c.error / s, 8, 1e-12);
    assert_int_equal(c.at, 2);
    x[2] = 1 + 4 * 8.25 * s;
    assert_int_equal(judged(x, y, NULL, s).verdict, TENSOR_WRONG);
    assert_int_equal(judged(x, y, NULL, 2 * s).verdict, TENSOR_RIGHT);
    x[2] = 1;
    assert_int_equal(judged(x, y, NULL, 0).verdict, TENSOR_RIGHT);
    x[2] = 1 + 1e-15;
    assert_int_equal(judged(x, y, NULL, 0).verdict, TENSOR_WRONG);
}

TEST(test_alarm_ranks_that_differ_come_first) {
    const double s = 1.0 / 1024;
    double y[N] = {4, 1, 1, 1, 1, 1}, x[N] = {4, 1, 1, 1, 1, 1};
    struct whole run = tensor(x), reference = tensor(y);
    struct checked c = {.scale = s};
    run.apart = 9 * s, run.rank = 1, run.other = 3;                       /* rank 0's copy is right */
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_APART);
    assert_close(c.apart / s, 9, 1e-12);
    assert_true(c.rank == 1 && c.other == 3);
    x[1] = 2;
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_APART);
    assert_close(c.error, 0.25, 1e-15);
    run.apart = 8 * s;
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_WRONG);
    run.apart = INFINITY, x[1] = 1;
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_APART);
}

TEST(test_alarm_parts_and_shapes) {
    double y[N] = {4, 1, 1, 1, 1, 1}, x[N] = {4, 1, 1, 1, 1, 1};
    struct whole run = tensor(x), reference = tensor(y);
    struct checked c = {.scale = 1};
    run.missing = 2;
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_IN_PART);
    assert_int_equal(c.missing, 2);
    run.box.of[0] = 3, run.box.of[1] = 2;                                 /* as many elements, another shape */
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_OF_ANOTHER_SHAPE);
    run = tensor(x), run.box.n_axes = 3, run.box.of[2] = 1;
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_OF_ANOTHER_SHAPE);
    run = tensor(x), run.box.of[3] = 7;                                   /* entries after n_axes do not count */
    verdict_of(&run, &reference, NULL, &c);
    assert_int_equal(c.verdict, TENSOR_RIGHT);
}

/* The result of verdict_first on a step's verdicts, which are in order. */
struct found { int first, n_compared, n_wrong; };
static struct found find(const enum verdict *verdict, const double *error, int n) {
    struct checked row[8] = {{0}};
    struct found f;
    for (int i = 0; i < n; i++) row[i] = (struct checked){.verdict = verdict[i], .error = error[i], .scale = 1e-6};
    f.first = verdict_first(row, n, &f.n_compared, &f.n_wrong);
    return f;
}

TEST(test_alarm_first_is_not_the_largest) {
    const enum verdict v[5] = {TENSOR_RIGHT, TENSOR_WRONG, TENSOR_RIGHT, TENSOR_WRONG, TENSOR_APART};
    struct found f = find(v, (double[]){7e-6, 9e-6, 0, 0.5, 0.9}, 5);
    assert_int_equal(f.first, 1);
    assert_int_equal(f.n_compared, 5);
    assert_int_equal(f.n_wrong, 3);
    const enum verdict part[3] = {TENSOR_RIGHT, TENSOR_IN_PART, TENSOR_WRONG};
    assert_int_equal(find(part, (double[]){0, 0, 1}, 3).first, 1);
    const enum verdict begins[2] = {TENSOR_OF_ANOTHER_SHAPE, TENSOR_WRONG};
    assert_int_equal(find(begins, (double[]){0, 1}, 2).first, 0);
}

TEST(test_alarm_what_is_not_recorded_is_no_finding) {
    const enum verdict v[4] = {TENSOR_NOT_RECORDED, TENSOR_RIGHT, TENSOR_NOT_RECORDED, TENSOR_WRONG};
    struct found f = find(v, (double[]){0, 0, 0, 1}, 4);
    assert_int_equal(f.first, 3);
    assert_int_equal(f.n_compared, 2);
    assert_int_equal(f.n_wrong, 1);
    f = find(v, (double[]){0, 0, 0}, 3);
    assert_int_equal(f.first, -1);
    assert_int_equal(f.n_compared, 1);
    assert_int_equal(f.n_wrong, 0);
}

TESTS(unit_test(test_alarm_error_is_that_of_the_worst_element), unit_test(test_alarm_of_zeros_is_not_divided),
      unit_test(test_alarm_slack_is_of_each_element), unit_test(test_alarm_what_is_no_number_is_wrong),
      unit_test(test_alarm_unit_is_the_rounding), unit_test(test_alarm_ranks_that_differ_come_first),
      unit_test(test_alarm_parts_and_shapes), unit_test(test_alarm_first_is_not_the_largest),
      unit_test(test_alarm_what_is_not_recorded_is_no_finding))
