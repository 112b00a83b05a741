/* ranks: 1  device: cpu */
/* A budget's pictures from lines that are made up: a mark for each line, with its numbers. */
#define _GNU_SOURCE /* open_memstream */
#include "tests/test.h"

#include "driver/plan/budget_pictures.h"
#include "planner/failure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int count(const char *text, const char *words) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) n++;
    return n;
}

static char *drawn(enum status (*draw)(const struct budget_page *, FILE *), const struct budget_page *p) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_ok(draw(p, f));
    fclose(f);
    return text;
}

/* 8, 16, ... ranks; a failure of a rank in a million seconds, a save stops for 5 s. The last line does not fit. */
enum { N = 4 };
static void make_curve(struct budget_curve *c, bool searched) {
    for (int i = 0; i < N; i++) {
        struct budget_line l = {.ranks = 8 << i, .batch = 64, .fits = i < N - 1, .searched = searched,
                                .mfu = 0.5 - 0.1 * i};
        l.best.price.step_s = 4, l.best.price.phase_s[PRICE_PRODUCTS] = 3, l.best.price.phase_s[PRICE_BUBBLE] = 1;
        l.cost.slowest = 1.25, l.cost.goodput = 0.75, l.cost.mtbf_s = 1e6 / (double)l.ranks;
        l.cost.young_s = failure_interval_young(5, l.cost.mtbf_s);
        l.cost.daly_s = failure_interval_daly(5, l.cost.mtbf_s);
        budget_curve_add(c, &l);
    }
}

TEST(test_shares_are_of_lines_that_fit) {
    struct budget_curve curves[2] = {{0}};
    const struct budget_page page = {NULL, NULL, curves, 5, 600};
    make_curve(&curves[0], true);
    make_curve(&curves[1], true);
    char *x = drawn(budget_picture_shares, &page);
    assert_int_equal(count(x, "<title>batch stays products: 75 % of the step</title>"), N - 1);
    assert_int_equal(count(x, "<title>batch grows bubble: 25 % of the step</title>"), N - 1);
    assert_int_equal(count(x, ">32 ranks: batch 64 in 4 s, and batch 64 in 4 s<"), 1);
    assert_int_equal(count(x, ">nothing fits, or can be<"), 1);
    free(x);
    for (int i = 0; i < 2; i++) budget_curve_fini(&curves[i]);
    make_curve(&curves[0], false);                                   /* of a given mfu there are no phases */
    x = drawn(budget_picture_shares, &page);
    assert_string_equal(x, "");
    free(x);
    budget_curve_fini(&curves[0]);
}

TEST(test_mfu_has_two_dots_a_line) {
    struct budget_curve curves[2] = {{0}};
    const struct budget_page page = {NULL, NULL, curves, 5, 600};
    make_curve(&curves[1], false);
    assert_close(budget_mfu_left(&curves[1].line[0]), 0.3, 1e-12);
    char *x = drawn(budget_picture_mfu, &page);
    assert_int_equal(count(x, "<circle"), 2 * (N - 1));
    assert_int_equal(count(x, "<title>8 ranks, batch 64: mfu 50%</title>"), 1);
    assert_int_equal(count(x, "<title>8 ranks, batch 64: left 30%</title>"), 1);
    assert_int_equal(count(x, "<title>16 ranks, batch 64: left 24%</title>"), 1);
    assert_int_equal(count(x, "batch stays"), 0);
    free(x);
    budget_curve_fini(&curves[1]);
}

/* Young's and Daly's intervals are marked on each line, with the goodput that failure.h has for them. */
TEST(test_goodput_marks_both_intervals) {
    struct budget_curve curves[2] = {{0}};
    const struct budget_page page = {NULL, NULL, curves, 5, 600};
    char wanted[128];
    make_curve(&curves[0], true);
    char *x = drawn(budget_picture_goodput, &page);
    assert_int_equal(count(x, "<polyline"), N);
    assert_int_equal(count(x, "<circle"), 2 * N);
    for (int i = 0; i < N; i++) {
        const struct budget *b = &curves[0].line[i].cost;
        snprintf(wanted, sizeof wanted, "<title>%d ranks, Daly: every %.0f s, goodput %.2f%%</title>", 8 << i,
                 b->daly_s, 100 * failure_goodput(b->daly_s, 5, b->mtbf_s, 600));
        assert_int_equal(count(x, wanted), 1);
        snprintf(wanted, sizeof wanted, "<title>%d ranks, Young: every %.0f s", 8 << i, b->young_s);
        assert_int_equal(count(x, wanted), 1);
    }
    free(x);
    for (int i = 0; i < N; i++) curves[0].line[i].cost.young_s = curves[0].line[i].cost.daly_s = NAN;
    x = drawn(budget_picture_goodput, &page);                        /* nothing fails */
    assert_string_equal(x, "");
    free(x);
    budget_curve_fini(&curves[0]);
}

TESTS(unit_test(test_shares_are_of_lines_that_fit), unit_test(test_mfu_has_two_dots_a_line),
      unit_test(test_goodput_marks_both_intervals))
