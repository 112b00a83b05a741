/* ranks: 1  device: cpu */
/* The page and its pictures from rows that are made up: what is escaped, which rank is drawn, which traced step. Whole
 * comparisons: tests/report.sh */
#define _GNU_SOURCE /* open_memstream */
#include "tests/test.h"

#include "driver/compare/compare_html.h"
#include "driver/compare/compare_pictures.h"
#include "driver/compare/compare_pipeline.h"
#include "driver/recipe.h"
#include "pp/pp_schedule.h"
#include "lib/trace/memory_timeline.h"
#include "tests/layouts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(const char *text, const char *words) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) n++;
    return n;
}

static char *drawn(enum status (*draw)(const struct compare_row *, int, FILE *), const struct compare_row *rows,
                   int n) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_ok(draw(rows, n, f));
    fclose(f);
    return text;
}

/* Rank 1 has more in all, rank 0 more of act. */
static struct compare_rank ranks[2] = {
    {.predicted = {{[ROLE_PARAM] = 1 << 20, [ROLE_ACT] = 3 << 20}},
     .measured = {{[ROLE_PARAM] = 1 << 20, [ROLE_ACT] = 3 << 20}}, .step_s = 0.5, .flops = 1},
    {.predicted = {{[ROLE_PARAM] = 5 << 20, [ROLE_ACT] = 2 << 20}},
     .measured = {{[ROLE_PARAM] = 5 << 20, [ROLE_ACT] = 2 << 20}}, .step_s = 0.5, .flops = 1}};

static struct compare_row rows[2] = {
    {.strategy = "dp=2 data=<b>&\"x'", .n_ranks = 2, .n_threads = 1, .n_steps = 4, .n_timed = 3, .step_s = 0.5,
     .tokens_per_s = NAN, .loss = 2.5, .ranks = ranks},
    {.strategy = "tp=3", .status = E_CONFIG, .reason = "tp=3 does not <divide>"}};

/* ---- the page ---- */
TEST(test_report_page_escapes_and_refuses) {
    static char text[1 << 17];
    const struct compare_about about = {.n_strategies = 3, .date = "2026-01-01", .machine = "a <machine>"};
    assert_ok(compare_html_write(test_path("."), &about, rows, 2));
    FILE *f = fopen(test_path("report.html"), "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_int_equal(count(text, "<b>") + count(text, "<divide>") + count(text, "<machine>"), 0);
    /* a row of each table */
    assert_int_equal(count(text, "<th scope=\"row\">dp=2 data=&lt;b&gt;&amp;&quot;x&#39;</th>"), 2);
    assert_int_equal(count(text,
                           "<td class=\"reason\" colspan=\"10\">refused: E_CONFIG tp=3 does not &lt;divide&gt;</td>"),
                     1);
    assert_int_equal(count(text, "2 of them are done"), 1);
    /* tokens per second */
    assert_int_equal(count(text, ">not known<"), 1);
}

TEST(test_memory_is_drawn_of_one_rank) {
    assert_int_equal(compare_fullest(&rows[0]), 1);
    char *x = drawn(compare_pictures[0].draw, rows, 2);
    assert_int_equal(count(x, "predicted param: 5 MiB") + count(x, "predicted act: 2 MiB") +
                         count(x, "measured act: 2 MiB"),
                     3);
    assert_int_equal(count(x, "act: 3 MiB"), 0);
    /* both bars; and the axis ends there */
    assert_int_equal(count(x, ">7<"), 2 + 1);
    free(x);
}

/* ---- traced pipelines ---- */
enum { STAGES = 2, MICROBATCHES = 3, STEPS = 2, STAGE_SPANS = 2 * MICROBATCHES };

/* gpipe's spans of two steps, each action 1 s long, and those of the second step half as long; the first action of a
 * step at 10 s or 20 s. */
static void make_trace(struct trace_rank traced[STAGES], struct span spans[STAGES][STEPS * STAGE_SPANS]) {
    for (int stage = 0; stage < STAGES; stage++) {
        struct schedule s;
        int n = 0;
        pp_schedule_make(&pp_gpipe, &(struct pp_shape){STAGES, 1, MICROBATCHES, {0}, NULL}, stage, &s);
        for (int step = 0; step < STEPS; step++)
            for (int i = 0, k = 0; i < s.n; i++) {
                if (!action_is_compute(s.actions[i].kind)) continue;
                double start = 10 * (step + 1) + (stage + k) * (step ? 0.5 : 1), end = start + (step ? 0.5 : 1);
                spans[stage][n++] = (struct span){.start_s = start, .end_s = end, .step = 4 + step, .action = i,
                                                  .kind = SPAN_ACTION, .what = (uint8_t)s.actions[i].kind};
                k++;
            }
        traced[stage] = (struct trace_rank){.place = mesh_place_of(&(struct mesh_sizes){.pp = STAGES}, stage),
                                            .n_spans = n, .spans = spans[stage]};
        schedule_fini(&s);
    }
}

static struct compare_row traced_row(struct trace_rank *traced) {
    return (struct compare_row){.strategy = "pp=2", .layout = mesh_place_of(&(struct mesh_sizes){.pp = STAGES}, 0),
                                .n_ranks = 2, .ranks = ranks, .schedule = &pp_gpipe, .n_chunks = 1,
                                .n_microbatches = MICROBATCHES,
                                .trace = {.n_ranks = STAGES, .ranks = traced, .first_step = 4, .n_steps = STEPS}};
}

TEST(test_traced_pipeline_is_the_fastest_step) {
    struct trace_rank traced[STAGES];
    struct span spans[STAGES][STEPS * STAGE_SPANS];
    make_trace(traced, spans);
    struct compare_row row = traced_row(traced);
    char *x = drawn(compare_pipeline_draw, &row, 1);
    assert_int_equal(count(x, ">predicted: pp=2<") + count(x, ">traced: pp=2<"), 2);
    assert_int_equal(count(x, "a step takes 3500 ms: 3000 of work, 500 idle (14.3% of the step)"), 1);
    assert_int_equal(count(x, "<title>forward of microbatch 0, chunk 0: 500 to 1000</title>"), 1);   /* of stage 1 */
    free(x);
}

TEST(test_traced_pipeline_with_a_hole_is_not_drawn) {
    struct trace_rank traced[STAGES];
    struct span spans[STAGES][STEPS * STAGE_SPANS];
    make_trace(traced, spans);
    struct compare_row row = traced_row(traced);
    traced[1].n_spans--;                                             /* the second step has lost its last action: the
                                                                      * first is drawn */
    char *x = drawn(compare_pipeline_draw, &row, 1);
    assert_int_equal(count(x, "a step takes 7000 ms"), 1);
    free(x);
    spans[0][0].kind = SPAN_ROW;                                     /* nor is the first one whole now */
    x = drawn(compare_pipeline_draw, &row, 1);
    assert_int_equal(count(x, ">predicted: pp=2<"), 1);
    assert_int_equal(count(x, ">traced: pp=2<"), 0);
    free(x);
}

/* ---- memory over a step ---- */
static double alive_mib(const struct memory_point *p) {
    int64_t sum = 0;
    for (enum role role = 0; role < N_ROLES; role++) sum += p->alive[role];
    return (double)sum / (1 << 20);
}

/* A point is the fullest of the rows from its own to the next point's. */
static void check_points(const struct memory_chart *c, const struct memory_timeline *t) {
    for (int i = 0; i < c->n_points; i++) {
        int from = (int)c->x[i], to = i + 1 < c->n_points ? (int)c->x[i + 1] : t->n;
        double sum = 0, most = 0;
        for (int role = 0; role < N_ROLES; role++) sum += c->value[i * N_ROLES + role];
        for (int row = from; row < to; row++) most = fmax(most, alive_mib(&t->points[row]));
        assert_close(sum, most, 1e-12);
        assert_true(sum <= c->planned);
    }
}

static void check_chart(int64_t n_microbatches, bool is_thinned) {
    struct plan p = parity_plan();
    struct memory_chart chart;
    struct memory_timeline t;
    struct run r;
    p.mesh.dp = p.mesh.tp = p.mesh.pp = p.micro_batch = 1;
    p.global_batch = n_microbatches;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    assert_ok(memory_chart_make(&r, &chart));
    assert_int_equal(chart.n_marks, 2 * n_microbatches);
    assert_string_equal(chart.marks[1].label, "B0");
    assert_true(chart.n_points <= MEMORY_CHART_POINTS && (chart.n_points < chart.n_rows) == is_thinned);
    assert_ok(memory_timeline_make(&r.program, r.chunks, &r.schedule, &r.memory, &t));
    check_points(&chart, &t);
    memory_timeline_fini(&t);
    memory_chart_fini(&chart);
    run_destroy(&r);
}

TEST(test_memory_chart_keeps_every_peak) {
    check_chart(1, false);
    check_chart(12, true);
    check_chart(37, true);
}

TESTS(unit_test(test_report_page_escapes_and_refuses), unit_test(test_memory_is_drawn_of_one_rank),
      unit_test(test_traced_pipeline_is_the_fastest_step), unit_test(test_traced_pipeline_with_a_hole_is_not_drawn),
      unit_test(test_memory_chart_keeps_every_peak))
