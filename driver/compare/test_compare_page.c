/* ranks: 1  device: cpu */
/* The page's JSON from made-up rows: escaped texts, the drawn rank, the drawn traced step. tests/report.sh runs whole
 * comparisons; tests/more/pages.sh draws them in a browser. */
#include "tests/test.h"

#include "driver/chart/memory_chart.h"
#include "driver/compare/compare_page.h"
#include "driver/compare/compare_report.h"
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

static json_t *at(json_t *o, const char *key, size_t i) { return json_array_get(json_object_get(o, key), i); }
static const char *text_at(json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }
static double number_at(json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* Rank 1 has the larger total, rank 0 more activations. */
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
/* The part of the page before the scripts, which the command writes. */
TEST(test_report_page_escapes_and_refuses) {
    static char text[1 << 15];
    json_error_t error;
    const struct compare_about about = {.n_strategies = 3, .date = "2026-01-01", .machine = "a <machine>"};
    assert_ok(compare_page_write(test_path("."), &about, rows, 2));
    FILE *f = fopen(test_path("report.html"), "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_int_equal(count(text, "<b>") + count(text, "<divide>") + count(text, "<machine>"), 0);
    char *begin = strstr(text, "id=\"data\">"), *end = begin ? strstr(begin, "</script>") : NULL;
    assert_non_null(end);
    json_t *page = json_loads(text + (begin - text) + strlen("id=\"data\">"), JSON_DISABLE_EOF_CHECK, &error);
    json_t *file = json_load_file(test_path("report.json"), 0, &error);
    assert_non_null(page);
    assert_true(json_equal(page, file));
    /* a row of each table */
    for (size_t i = 0; i < 2; i++) {
        json_t *row = at(at(page, "tables", i), "rows", 0);
        assert_string_equal(json_string_value(json_array_get(row, 0)), "dp=2 data=<b>&\"x'");
    }
    json_t *refused = at(at(page, "tables", 0), "rows", 1);
    assert_string_equal(text_at(json_array_get(refused, 1), "reason"), "refused: E_CONFIG tp=3 does not <divide>");
    assert_int_equal((int64_t)number_at(json_object_get(page, "about"), "strategies"), 3);
    json_t *first = at(json_object_get(page, "compare"), "strategies", 0);
    assert_true(json_is_null(json_object_get(first, "tokens_per_s")));
    json_decref(page);
    json_decref(file);
}

TEST(test_memory_is_drawn_of_one_rank) {
    assert_int_equal(compare_fullest(&rows[0]), 1);
    json_t *all = compare_json(rows, 2), *row = at(all, "strategies", 0), *rank = at(row, "per_rank", 1);
    assert_int_equal((int64_t)number_at(rank, "predicted_param_bytes"), 5 << 20);
    assert_int_equal((int64_t)number_at(rank, "predicted_act_bytes"), 2 << 20);
    assert_int_equal((int64_t)number_at(rank, "measured_act_bytes"), 2 << 20);
    assert_int_equal((int64_t)number_at(rank, "predicted_total_bytes"), 7 << 20);
    assert_int_equal((int64_t)number_at(at(row, "per_rank", 0), "predicted_total_bytes"), 4 << 20);
    assert_close(number_at(rank, "step_ms"), 500, 1e-12);
    json_decref(all);
}

/* Offloaded bytes have roles, too, because the page draws a bar of them. */
TEST(test_offloaded_roles_are_told) {
    struct compare_rank one = {.predicted = {[TIER_HOST] = {[ROLE_OPTIM] = 3 << 20}},
                               .measured = {[TIER_HOST] = {[ROLE_OPTIM] = 1 << 20}}, .step_s = 1, .flops = 1};
    const struct compare_row row = {.strategy = "", .n_ranks = 1, .ranks = &one};
    json_t *all = compare_json(&row, 1), *rank = at(at(all, "strategies", 0), "per_rank", 0);
    assert_int_equal((int64_t)number_at(json_object_get(rank, "predicted_host_roles"), "optim"), 3 << 20);
    assert_int_equal((int64_t)number_at(json_object_get(rank, "measured_host_roles"), "optim"), 1 << 20);
    assert_int_equal(json_object_size(json_object_get(rank, "predicted_disk_roles")), 0);
    json_decref(all);
}

/* ---- traced pipelines ---- */
enum { STAGES = 2, MICROBATCHES = 3, STEPS = 2, STAGE_SPANS = 2 * MICROBATCHES };

/* gpipe's spans of two steps, which begin at 10 s and 20 s. An action takes 1 s in the first step, 0.5 s in the
 * second. */
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
    json_t *all = json_array();
    assert_ok(compare_pipelines(&row, 1, all));
    assert_int_equal(json_array_size(all), 2);
    json_t *predicted = json_array_get(all, 0), *x = json_array_get(all, 1);
    assert_string_equal(text_at(predicted, "heading"), "predicted: pp=2");
    assert_string_equal(text_at(x, "heading"), "traced: pp=2");
    assert_close(number_at(x, "makespan"), 3500, 1e-9);
    assert_close(number_at(x, "work"), 3000, 1e-9);
    assert_close(number_at(x, "idle"), 500, 1e-9);
    json_t *wanted = json_pack("[s, i, i, f, f]", "F", 0, 0, 500., 1000.);             /* of stage 1 */
    assert_true(json_equal(json_array_get(at(x, "stages", 1), 0), wanted));
    assert_int_equal(json_array_size(at(x, "stages", 0)), STAGE_SPANS);
    json_decref(wanted);
    json_decref(all);
}

TEST(test_traced_pipeline_with_a_hole_is_not_drawn) {
    struct trace_rank traced[STAGES];
    struct span spans[STAGES][STEPS * STAGE_SPANS];
    make_trace(traced, spans);
    struct compare_row row = traced_row(traced);
    traced[1].n_spans--;                                             /* the second step lacks its last action, so the
                                                                      * first is drawn */
    json_t *all = json_array();
    assert_ok(compare_pipelines(&row, 1, all));
    assert_close(number_at(json_array_get(all, 1), "makespan"), 7000, 1e-9);
    json_array_clear(all);
    spans[0][0].kind = SPAN_ROW;                                     /* now the first step is incomplete, too */
    assert_ok(compare_pipelines(&row, 1, all));
    assert_int_equal(json_array_size(all), 1);
    assert_string_equal(text_at(json_array_get(all, 0), "heading"), "predicted: pp=2");
    json_decref(all);
}

/* ---- memory over a step ---- */
static int64_t bytes_of(const int64_t alive[N_ROLES]) {
    int64_t sum = 0;
    for (enum role role = 0; role < N_ROLES; role++) sum += alive[role];
    return sum;
}

/* A point is the fullest row from its own row to the next point's. */
static void check_points(json_t *o, const struct memory_timeline *t, bool is_thinned) {
    json_t *row = json_object_get(o, "row"), *alive = json_object_get(o, "alive_bytes");
    const size_t n = json_array_size(row);
    assert_int_equal(json_object_size(alive), N_ROLES);
    assert_int_equal(number_at(o, "rows"), t->n);
    assert_true(n <= MEMORY_CHART_POINTS && ((int)n < t->n) == is_thinned);
    for (size_t i = 0; i < n; i++) {
        const json_int_t from = json_integer_value(json_array_get(row, i)),
                         to = i + 1 < n ? json_integer_value(json_array_get(row, i + 1)) : t->n;
        int64_t most = 0, shown = 0;
        for (json_int_t k = from; k < to; k++)
            most = bytes_of(t->points[k].alive) > most ? bytes_of(t->points[k].alive) : most;
        for (enum role role = 0; role < N_ROLES; role++)
            shown += json_integer_value(at(alive, role_name(role), i));
        assert_int_equal(shown, most);
        assert_true((double)most <= number_at(o, "planned_bytes"));
        if (to - from > 1) continue;
        for (enum role role = 0; role < N_ROLES; role++)
            assert_int_equal(json_integer_value(at(alive, role_name(role), i)), t->points[from].alive[role]);
    }
}

static void check_chart(int64_t n_microbatches, bool is_thinned) {
    struct plan p = parity_plan();
    json_t *chart;
    struct memory_timeline t;
    struct run r;
    p.mesh.dp = p.mesh.tp = p.mesh.pp = p.micro_batch = 1;
    p.global_batch = n_microbatches;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    assert_ok(memory_chart_json(&r, json_string("a"), &chart));
    assert_int_equal(json_array_size(json_object_get(chart, "marks")), 2 * n_microbatches);
    assert_string_equal(json_string_value(json_array_get(at(chart, "marks", 1), 1)), "B0");
    assert_ok(memory_timeline_make(&r.program, r.chunks, &r.schedule, &r.memory, &t));
    check_points(chart, &t, is_thinned);
    memory_timeline_fini(&t);
    json_decref(chart);
    run_destroy(&r);
}

TEST(test_memory_chart_keeps_every_peak) {
    check_chart(1, false);
    check_chart(12, true);
    check_chart(37, true);
}

TESTS(unit_test(test_report_page_escapes_and_refuses), unit_test(test_memory_is_drawn_of_one_rank),
      unit_test(test_offloaded_roles_are_told),
      unit_test(test_traced_pipeline_is_the_fastest_step), unit_test(test_traced_pipeline_with_a_hole_is_not_drawn),
      unit_test(test_memory_chart_keeps_every_peak))
