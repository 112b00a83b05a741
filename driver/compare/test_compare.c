/* ranks: 1  device: cpu */
/* Strategies as text, and the report's numbers and words. tests/compare.sh runs whole comparisons. */
#include "driver/compare/compare_forecast.h"
#include "driver/compare/compare_measure.h"
#include "driver/compare/compare_report.h"
#include "driver/compare/compare_strategy.h"
#include "driver/compare/compare_table.h"
#include "driver/recipe.h"
#include "driver/report/report.h"
#include "mixed_precision/mixed_precision.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- strategies ---- */
static void assert_split(const char *text, int n, const char *const *expected) {
    struct strategies s;
    assert_ok(strategies_split(text, &s));
    assert_int_equal(s.n, n);
    for (int i = 0; i < n; i++) assert_string_equal(s.text[i], expected[i]);
    strategies_fini(&s);
}

TEST(test_bars_separate_and_blanks_do_not_matter) {
    assert_split("dp=8 | dp=8 zero=3|tp=2 sp ", 3, (const char *const[]){"dp=8", "dp=8 zero=3", "tp=2 sp"});
    assert_split("", 1, (const char *const[]){""});
    assert_split(" | zero=1", 2, (const char *const[]){"", "zero=1"});
    assert_split("||", 3, (const char *const[]){"", "", ""});
}

/* A strategy of plan options and one that compare adds. */
struct target { struct plan plan; char out[OPTION_TEXT_MAX]; };
static const struct option OUT[] = {{"out", OPTION_TEXT, "report", 0, 0, NULL, "", "", "",
                                     offsetof(struct target, out)}};

static enum status apply(const char *text, struct target *t) {
    const struct option_table own = {OUT, 1};
    struct option_table all;
    char *words[] = {"--tp", "4", "--sp"};
    struct options *o;
    TRY(recipe_options(&all));
    TRY(recipe_options_create(&own, t, &o));
    TRY(options_parse(o, 3, words));
    enum status status = strategy_apply(text, 2, &all, o);
    options_destroy(&o);
    return status;
}

TEST(test_settings_stand_above_the_command_line) {
    static struct target t;
    assert_ok(apply("tp=2 zero=3\tgrad-fp32 sp=off recompute=uniform:2 pp-split=1,3", &t));
    assert_int_equal(t.plan.mesh.tp, 2);
    assert_int_equal(plan_number(&t.plan, "zero"), 3);
    assert_int_equal(mixed_precision_options(&t.plan)->grad_fp32, 1);
    assert_int_equal(plan_number(&t.plan, "sp"), 0);
    assert_int_equal(recompute_options(&t.plan)->kind, RECOMPUTE_UNIFORM);
    assert_int_equal(recompute_options(&t.plan)->n, 2);
    assert_string_equal(pp_options(&t.plan)->split, "1,3");
    assert_ok(apply("", &t));
    assert_int_equal(t.plan.mesh.tp, 4);
    assert_int_equal(plan_number(&t.plan, "sp"), 1);
}

TEST(test_bad_settings_name_strategy_and_key) {
    static struct target t;
    assert_fails(apply("zerro=3", &t), E_USAGE, "strategy 2", "'zerro=3'", "did you mean --zero");
    assert_fails(apply("dp=8 zero=7", &t), E_USAGE, "strategy 2", "--zero 7", "0 to 3");
    assert_fails(apply("zero", &t), E_USAGE, "zero has no value", "zero=");
    assert_fails(apply("dp=", &t), E_USAGE, "--dp");
    assert_fails(apply("=3", &t), E_USAGE, "strategy 2");
    assert_fails(apply("dp=2 sp dp=4", &t), E_USAGE, "dp is set twice");
    assert_fails(apply("out=x", &t), E_USAGE, "out is the comparison's own");
    assert_fails(apply("config=x", &t), E_USAGE, "unknown option", "config");
}

/* ---- measuring ---- */
TEST(test_the_first_steps_are_not_timed) {
    assert_int_equal(compare_warmup(1), 0);
    assert_int_equal(compare_warmup(3), 0);
    assert_int_equal(compare_warmup(4), 1);
    assert_int_equal(compare_warmup(8), 2);
    assert_int_equal(compare_warmup(1000), 2);
}

TEST(test_median_is_the_middle) {
    assert_true(compare_median((double[]){3}, 1) == 3);
    assert_true(compare_median((double[]){9, 1, 2}, 3) == 2);
    assert_true(compare_median((double[]){100, 1, 3, 2}, 4) == 2.5);
}

TEST(test_resident_peak_starts_again) {
    enum { BYTES = 64 << 20 };
#ifdef __SANITIZE_ADDRESS__
    skip();                                                          /* it keeps freed memory */
#endif
    char *x = malloc(BYTES);
    assert_non_null(x);
    memset(x, 1, BYTES);
    int64_t with = resident_peak_bytes();
    assert_int_equal(x[BYTES / 2], 1);
    free(x);
    resident_reset();
    int64_t without = resident_peak_bytes();
    assert_true(with == 0 || with >= BYTES);
    if (access("/proc/self/clear_refs", W_OK) == 0) assert_true(without < with - BYTES / 2);
}

/* ---- rows ---- */
static struct compare_rank ranks[2] = {
    {.predicted = {{[ROLE_PARAM] = 10, [ROLE_ACT] = 5}, {[ROLE_OPTIM] = 7}},
     .measured = {{[ROLE_PARAM] = 10, [ROLE_ACT] = 5}},
     .resident_bytes = 100,
     .sent_bytes = {[AXIS_PP] = 3}, .waited_s = {[AXIS_PP] = 1}, .bubble_s = 1,
     .step_s = 4, .flops = 10, .replay_flops = 1},
    {.predicted = {{[ROLE_PARAM] = 8, [ROLE_ACT] = 6}}, .measured = {{[ROLE_PARAM] = 8, [ROLE_ACT] = 6}},
     .resident_bytes = 90,
     .sent_bytes = {[AXIS_PP] = 5}, .waited_s = {[AXIS_PP] = 2}, .bubble_s = 0.5, .step_s = 4, .flops = 20,
     .replay_flops = 5}};

TEST(test_a_row_is_its_fullest_rank_and_its_mean_wait) {
    struct compare_row row = {.n_ranks = 2, .ranks = ranks};
    struct compare_summary s = compare_summarise(&row);
    assert_int_equal(s.predicted[ROLE_PARAM], 10);
    assert_int_equal(s.predicted[ROLE_ACT], 6);
    assert_int_equal(s.predicted_tier[TIER_DEVICE], 15);
    assert_int_equal(s.measured_tier[TIER_DEVICE], 15);
    assert_int_equal(s.predicted_tier[TIER_HOST], 7);
    assert_int_equal(s.resident, 100);
    assert_int_equal(s.unaccounted, 100 - 22);
    assert_true(s.sent_bytes[AXIS_PP] == 5 && s.waited_s[AXIS_PP] == 1.5);
    assert_close(s.bubble_share, 0.75 / 4, 1e-15);
    assert_close(s.extra_flops, 6.0 / 30, 1e-15);
}

/* Two ranks of 150 tokens per second against one of 100: 150 / (2 x 100). A refused row of one rank is no reference. */
TEST(test_scale_factor_is_speed_per_rank_against_one_rank) {
    struct compare_row four[4] = {{.n_ranks = 1, .tokens_per_s = 50, .status = E_CONFIG},
                                  {.n_ranks = 2, .tokens_per_s = 150},
                                  {.n_ranks = 1, .tokens_per_s = 100},
                                  {.n_ranks = 1, .tokens_per_s = 400}};
    compare_rows_scale(four, 2);
    assert_close(four[1].scale_factor, 0, 0);                        /* no row of one rank yet */
    compare_rows_scale(four, 4);
    assert_close(four[1].scale_factor, 0.75, 0);
    assert_close(four[2].scale_factor, 1, 0);
    assert_close(four[3].scale_factor, 4, 0);
}

static const struct compare_row rows[2] = {
    {.strategy = "dp=2 data=\"a,b\"", .n_ranks = 2, .n_threads = 1, .n_steps = 4, .n_timed = 3, .step_s = 0.5,
     .tokens_per_s = 1000, .loss = 2.5, .ranks = ranks},
    {.strategy = "tp=3", .status = E_CONFIG, .reason = "tp=3 does not divide heads=4; use 1, 2, 4"}};

static char *file_text(const char *path) {
    static char text[16384];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
    return text;
}

static bool starts_with(const char *text, const char *words) { return strncmp(text, words, strlen(words)) == 0; }

TEST(test_report_has_a_line_a_row) {
    const char *dir = test_path("compare/report"), *csv = test_path("compare/report/compare.csv");
    assert_ok(report_prepare(dir));
    assert_ok(report_prepare(dir));
    assert_ok(compare_report_write(dir, rows, 2));
    char *text = file_text(csv), *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    assert_true(starts_with(text, "strategy,status,error,tp,"));
    assert_true(starts_with(second, "\"dp=2 data=\"\"a,b\"\"\",ran,,"));
    assert_true(starts_with(third, "tp=3,refused,\"E_CONFIG tp=3 does not divide heads=4; use 1, 2, 4\",,,"));
    assert_non_null(strstr(file_text(test_path("compare/report/compare.json")), "\"measured_param_bytes\": 10"));
}

TEST(test_report_refuses_what_cannot_be_written) {
    assert_fails(report_prepare("/dev/null/report"), E_IO, "/dev/null/report", "--out");
}

/* The caller frees the text. */
static char *table_of(const struct compare_row *of, int n) {
    static char *text;
    static size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    compare_table_print(f, of, n);
    fclose(f);
    return text;
}

TEST(test_table_is_aligned_and_has_refusals) {
    char *text = table_of(rows, 2);
    assert_non_null(strstr(text, "refused: E_CONFIG tp=3 does not divide heads=4"));
    assert_non_null(strstr(text, "Most tokens a second: dp=2"));
    char *head = strstr(text, "strategy"), *row = strchr(head, '\n') + 1;
    assert_int_equal(strchr(head, '\n') - head, strchr(row, '\n') - row);
    free(text);
}

/* The note that the serial run is no reference is printed only if a row has such an option. */
static bool table_says(const struct compare_row *both, const char *option) {
    char *text = table_of(both, 2), *line = strstr(text, option);
    bool says = line && strstr(line, "not the serial run");
    free(text);
    return says;
}

TEST(test_table_says_what_a_row_is_held_against) {
    static const char *const options[] = {"grad-codec:", "weight-codec:", "local-steps:"};
    for (int has = 0; has < 4; has++) {                              /* 3: none */
        struct compare_row both[2] = {rows[0], rows[1]};
        both[0].coded = has == 0, both[1].quantized = has == 1, both[1].apart = has == 2;
        for (int i = 0; i < 3; i++) assert_int_equal(table_says(both, options[i]), i == has);
    }
}

TEST(test_mib_has_about_four_digits) {
    char text[32];
    compare_mib(1.5 * (1 << 20), text, sizeof text);
    assert_string_equal(text, "1.50");
    compare_mib(812.25 * (1 << 20), text, sizeof text);
    assert_string_equal(text, "812.2");
    compare_mib(81920.0 * (1 << 20), text, sizeof text);
    assert_string_equal(text, "81920");
}

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
    struct compare_row runs[] = {ran(0.99, 1.01, 1, 1.30, 1.1), ran(1.176, 1.224, 1, 1.20, 0.8),
                                 ran(1.213, 1.288, 1, 1.50, 1.3), {.strategy = "refused", .status = E_CONFIG},
                                 ran(0.5, 0.5, 1, 0, 0)};
    struct compare_forecast f = compare_forecast_of(runs, 5);
    assert_int_equal(f.n, 3);
    assert_close(f.noise, 0.04, 1e-12);
    assert_int_equal(f.pairs, 2);
    assert_int_equal(f.in_order, 1);
    assert_close(f.regret, 0.2, 1e-12);
    assert_close(f.step_error, 1.5 / 1.2505 - 1, 1e-12);
    assert_close(f.work_error, 0.2, 1e-12);
    assert_int_equal(compare_faster(runs, 3, &runs[2], false), 2);
    assert_int_equal(compare_faster(runs, 3, &runs[0], true), 1);
}

TEST(test_forecast_in_words) {
    struct compare_row runs[] = {ran(1, 0, 1, 1.1, 1), ran(2, 0, 1, 1.8, 1)};
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    compare_forecast_print(f, runs, 1);
    fflush(f);
    assert_int_equal(bytes, 0);
    compare_forecast_print(f, runs, 2);
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

TESTS(unit_test(test_bars_separate_and_blanks_do_not_matter), unit_test(test_settings_stand_above_the_command_line),
      unit_test(test_bad_settings_name_strategy_and_key), unit_test(test_the_first_steps_are_not_timed),
      unit_test(test_median_is_the_middle), unit_test(test_resident_peak_starts_again),
      unit_test(test_a_row_is_its_fullest_rank_and_its_mean_wait), unit_test(test_report_has_a_line_a_row),
      unit_test(test_report_refuses_what_cannot_be_written), unit_test(test_table_is_aligned_and_has_refusals),
      unit_test(test_scale_factor_is_speed_per_rank_against_one_rank),
      unit_test(test_table_says_what_a_row_is_held_against), unit_test(test_mib_has_about_four_digits),
      unit_test(test_passes_are_meaned), unit_test(test_forecast_counts_pairs_beyond_the_noise),
      unit_test(test_forecast_in_words), unit_test(test_a_row_is_predicted_or_goes_without))
