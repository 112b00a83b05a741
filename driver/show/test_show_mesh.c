/* ranks: 1  device: cpu
 *
 * `show mesh` compared with the mesh: every rank is in one group of each axis, with exactly the ranks that differ in
 * that coordinate only. 8 x 4 x 3 ranks by hand. Bytes equal the bill's. */
#define _GNU_SOURCE /* open_memstream */
#include "driver/recipe.h"
#include "driver/show/show_views.h"
#include "driver/show/test_show.h"
#include "lib/comm/mesh.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(const char *options, int *code) { return show_text("mesh", options, code); }

static json_t *show(const char *options, int *code) {
    char more[256];
    snprintf(more, sizeof more, "--json %s", options);
    char *said = text_of(more, code);
    json_t *x = json_loads(said, 0, NULL);
    free(said);
    return x;
}

static json_t *axis_of(json_t *axes, const char *name) {
    for (size_t i = 0; i < json_array_size(axes); i++)
        if (!strcmp(json_string_value(json_object_get(json_array_get(axes, i), "axis")), name))
            return json_array_get(axes, i);
    fail_msg("no axis %s", name);
    return NULL;
}
static json_int_t integer(const json_t *x, const char *key) { return json_integer_value(json_object_get(x, key)); }

static void check_axis(json_t *axes, const char *name, int groups, int size, int nodes) {
    json_t *a = axis_of(axes, name);
    assert_int_equal(json_array_size(json_object_get(a, "groups")), groups);
    assert_int_equal(integer(a, "size"), size);
    assert_int_equal(integer(a, "nodes"), nodes);
}

TEST(test_show_mesh_counts_the_groups_of_96_ranks) {
    int code;
    json_t *axes = show("--dp 3 --tp 8 --pp 4 --heads 8 --hidden 64 --layers 4 --global-batch 24", &code);
    assert_int_equal(code, 0);
    check_axis(axes, "tp", 12, 8, 1);
    check_axis(axes, "dp", 32, 3, 3);
    check_axis(axes, "pp", 24, 4, 4);
    check_axis(axes, "tie", 24, 2, 2);
    json_decref(axes);
}

/* Ranks 0 1 2 | 3 4 5 | 6 7: a group of four neighbors is on two nodes. */
TEST(test_show_mesh_spreads_over_small_nodes) {
    int code;
    json_t *axes = show("--dp 1 --tp 4 --pp 2 --ranks-per-node 3 --global-batch 4", &code);
    check_axis(axes, "tp", 2, 4, 2);
    check_axis(axes, "pp", 4, 2, 2);
    json_decref(axes);
}

/* Dealt round four nodes, rank r is on node r % 4: four neighbors are on four nodes, r and r + 4 on one. */
TEST(test_show_mesh_deals_ranks_round_the_nodes) {
    int code;
    json_t *axes = show("--dp 1 --tp 4 --pp 2 --ranks-per-node 2 --placement cyclic --global-batch 4", &code);
    check_axis(axes, "tp", 2, 4, 4);
    check_axis(axes, "pp", 4, 2, 1);
    json_decref(axes);
}

/* Neighbors in a group differ only along the axis, and each rank is in one group. */
static void check_partition(json_t *axes, const char *name, const struct mesh_sizes *sizes) {
    json_t *groups = json_object_get(axis_of(axes, name), "groups");
    int seen[64] = {0};
    for (size_t g = 0; g < json_array_size(groups); g++)
        for (size_t i = 0; i < json_array_size(json_array_get(groups, g)); i++) {
            int rank = (int)json_integer_value(json_array_get(json_array_get(groups, g), i));
            int first = (int)json_integer_value(json_array_get(json_array_get(groups, g), 0));
            struct mesh_place a = mesh_place_of(sizes, first), b = mesh_place_of(sizes, rank);
            assert_in_range(rank, 0, mesh_n_ranks(sizes) - 1);
            seen[rank]++;
            assert_int_equal(b.rank.tp, strcmp(name, "tp") ? a.rank.tp : (int)i);
            assert_int_equal(b.rank.dp, strcmp(name, "dp") ? a.rank.dp : (int)i);
            assert_int_equal(b.rank.pp, strcmp(name, "pp") ? a.rank.pp : (int)i);
        }
    for (int rank = 0; rank < mesh_n_ranks(sizes); rank++) assert_int_equal(seen[rank], 1);
}

TEST(test_show_mesh_groups_are_partitions) {
    int code;
    json_t *axes = show("--dp 3 --tp 2 --pp 4 --global-batch 24", &code);
    assert_int_equal(code, 0);
    struct mesh_sizes sizes = {.dp = 3, .tp = 2, .pp = 4};
    check_partition(axes, "tp", &sizes);
    check_partition(axes, "dp", &sizes);
    check_partition(axes, "pp", &sizes);
    json_decref(axes);
}

/* tp/README.md: (4 L + 2) sums of B T C numbers, and 3 B T numbers for the loss; a sum of S bytes sends 2 S (n-1)/n.
 * Middle stages send in both directions. */
TEST(test_show_mesh_bytes_are_the_bills) {
    int code;
    json_t *axes = show("--tp 2 --layers 3 --hidden 64 --seq 32 --global-batch 4", &code);
    assert_close(json_number_value(json_object_get(axis_of(axes, "tp"), "bytes")),
                 4 * ((4 * 3 + 2) * 4 * 32 * 64 + 3 * 4 * 32), 0);
    json_decref(axes);
    axes = show("--pp 3 --layers 3 --hidden 64 --seq 32 --global-batch 4 --micro-batch 1", &code);
    assert_close(json_number_value(json_object_get(axis_of(axes, "pp"), "bytes")), 4 * 2 * 4 * 32 * 64, 0);
    json_decref(axes);
}

TEST(test_show_mesh_of_one_rank_says_so) {
    int code;
    char *said = text_of("--dp 1", &code);
    assert_int_equal(code, 0);
    assert_string_equal(said, "one rank: no groups\n");
    free(said);
    json_t *axes = show("--dp 1", &code);
    check_axis(axes, "tp", 1, 1, 1);
    json_decref(axes);
}

/* A file that is full from the start. */
TEST(test_show_mesh_does_not_hide_that_it_could_not_write) {
    char *argv[] = {"mesh", "--json", "--tp", "2"};
    FILE *screen = stdout;
    stdout = fopen("/dev/full", "w");
    setvbuf(stdout, NULL, _IONBF, 0);
    int code = show_main(4, argv);
    fclose(stdout);
    stdout = screen;
    assert_int_equal(code, 1);
}

/* `show memory --params`, run as a command, compared with table 1 of the ZeRO paper; and its refusals. */

static char *show_memory_text(const char *options, int *code) { return show_text("memory", options, code); }

static json_t *show_json(const char *options) {
    char with_json[256];
    int code;
    snprintf(with_json, sizeof with_json, "%s --json", options);
    char *said = show_memory_text(with_json, &code);
    json_t *x = json_loads(said, 0, NULL);
    free(said);
    assert_int_equal(code, 0);
    assert_non_null(x);
    return x;
}

static double number(const json_t *x, const char *key) { return json_number_value(json_object_get(x, key)); }

static void check(const char *options, double param, double grad, double optim) {
    json_t *x = show_json(options);
    const json_t *bytes = json_object_get(x, "bytes");
    assert_close(number(bytes, "param"), param, 0);
    assert_close(number(bytes, "grad"), grad, 0);
    assert_close(number(bytes, "optim"), optim, 0);
    assert_close(number(x, "total"), param + grad + optim, 0);
    json_decref(x);
}

TEST(test_show_params_counts_states_by_stage_and_precision) {
    check("--params 1000", 4000, 4000, 8000);
    check("--params 1000 --precision fp64 --dp 4", 8000, 8000, 16000);
    check("--params 1000 --precision bf16 --dp 4", 2000, 2000, 12000);
    check("--params 1000 --precision bf16 --dp 4 --zero 1", 2000, 2000, 3000);
    check("--params 1000 --precision fp16 --dp 4 --zero 2", 2000, 500, 3000);
    check("--params 1000 --precision bf16 --dp 4 --zero 3", 500, 500, 3000);
    check("--params 1000 --precision bf16 --dp 4 --zero 3 --grad-fp32", 500, 1000, 3000);
    check("--params 1000 --precision bf16 --dp 8 --zero 3 --shard 4", 500, 500, 3000);
    check("--params 1000 --precision bf16 --dp 8 --zero 2 --shard node --ranks-per-node 2", 2000, 1000, 6000);
    check("--params 1000 --precision bf16 --dp 8 --zero 3 --zero-secondary 4", 250 + 500, 250, 1500);
}

TEST(test_show_params_repeats_what_it_was_asked) {
    json_t *x = show_json("--params 7.5e9 --dp 64 --zero 1 --precision bf16");
    assert_close(number(x, "parameters"), 7.5e9, 0);
    assert_close(number(x, "dp"), 64, 0);
    assert_close(number(x, "zero"), 1, 0);
    assert_string_equal(json_string_value(json_object_get(x, "precision")), "bf16");
    assert_close(number(x, "total"), 7.5e9 * (4 + 12. / 64), 0);
    json_decref(x);
}

TEST(test_show_params_says_it_in_words) {
    int code;
    char *said = show_memory_text("--params 7.5e9 --dp 64 --zero 1 --precision bf16", &code);
    bool right = strstr(said, "7500000000 parameters, dp=64 zero=1 bf16") && strstr(said, "31.41 GB") &&
                 strstr(said, "15 param + 15 grad + 1.406 optim");
    free(said);
    assert_int_equal(code, 0);
    assert_true(right);
}

/* ---- as a page ---- */
static double gigabytes(json_t *stage) {
    return (json_number_value(json_object_get(stage, "param")) + json_number_value(json_object_get(stage, "grad")) +
            json_number_value(json_object_get(stage, "optim"))) / 1e9;
}

TEST(test_show_params_writes_every_stage) {
    static const double paper[] = {120, 31.4, 16.6, 1.88};
    char options[400];
    json_error_t error;
    int code;
    snprintf(options, sizeof options, "--params 7.5e9 --dp 64 --precision bf16 --out %.300s", test_path("states"));
    free(show_memory_text(options, &code));
    assert_int_equal(code, 0);
    json_t *page = json_load_file(test_path("states/memory.json"), 0, &error);
    assert_non_null(page);
    assert_int_equal(json_array_size(json_object_get(page, "stages")), 4);
    for (size_t zero = 0; zero < 4; zero++)
        assert_close(gigabytes(json_array_get(json_object_get(page, "stages"), zero)), paper[zero], 0.05);
    json_decref(page);
}

/* ---- the paper's table: every cell, to one unit of its last printed digit ---- */
static double last_digit(const char *cell) {
    const char *point = strchr(cell, '.');
    return point ? pow(10, -(double)strspn(point + 1, "0123456789")) : 1;
}

static void check_row(const char *line) {
    char dp[16], params[16], cells[3][16];
    assert_int_equal(sscanf(line, "%15[^,],%15[^,],%15[^,],%15[^,],%15[^,\n]", dp, params, cells[0], cells[1],
                            cells[2]),
                     5);
    for (int zero = 1; zero <= 3; zero++) {
        char options[128];
        snprintf(options, sizeof options, "--params %se9 --dp %s --zero %d --precision bf16", params, dp, zero);
        json_t *x = show_json(options);
        assert_close(number(x, "total") / 1e9, strtod(cells[zero - 1], NULL), last_digit(cells[zero - 1]) * (1 + 1e-9));
        json_decref(x);
    }
}

TEST(test_show_params_reproduces_the_papers_table) {
    char line[256];
    int rows = 0;
    FILE *f = fopen("tests/anchors/zero_table1.csv", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (line[0] >= '0' && line[0] <= '9') {                      /* skip the source, and the columns' names */
            check_row(line);
            rows++;
        }
    fclose(f);
    assert_int_equal(rows, 18);
}

static void check_line(const char *what, const char *options, const char *error, const char *value,
                       const char *remedy) {
    int code;
    test_stderr_keep();
    free(show_text(what, options, &code));
    const char *said = test_stderr_text();
    bool right = strstr(said, error) && strstr(said, value) && strstr(said, remedy);
    assert_int_equal(code, 2);
    assert_true(right);
}

static void check_refused(const char *options, const char *value, const char *remedy) {
    check_line("memory", options, "E_CONFIG", value, remedy);
}

TEST(test_show_refuses_options_that_it_would_not_read) {
    check_line("program", "--mib 4", "E_USAGE", "--mib", "is for show comm");
    check_line("mesh", "--rows", "E_USAGE", "--rows", "is for show program");
    check_line("mesh", "--decode", "E_USAGE", "--decode", "is for show program, types and memory");
    check_line("mesh", "--out x", "E_USAGE", "--out", "is for show memory");
    check_line("options", "--params 1e9", "E_USAGE", "--params", "is for show memory");
    check_line("program", "--json", "E_USAGE", "--json", "show memory, mesh, comm and options");
}

TEST(test_show_params_refuses_what_the_formulas_do_not_know) {
    check_refused("--params 1e9 --tp 2 --pp 4", "tp=2 pp=4", "params / 8");
    check_refused("--params 1e9 --zero 1 --offload optimizer", "offload", "leave offload or params out");
}

TEST(test_show_types_prints_a_line_a_slot_and_a_param) {
    int code;
    char *said = show_text("types", "--layers 1 --tp 2 --dp 2 --sp", &code);
    bool right = strstr(said, "types on rank 0") && strstr(said, "types of all 4 ranks fit together\n") &&
                 strstr(said, "\nh0.proj.part                 P     S(B)") &&
                 strstr(said, "\nh0.proj                      S(T)  S(B)              S(T)  S(B)") &&
                 strstr(said, "\nh0.ln1.g                     R     R                 P     P       tp dp\n");
    free(said);
    assert_int_equal(code, 0);
    assert_true(right);
    said = show_text("types", "--layers 1", &code);
    right = strstr(said, "nothing is sharded");
    free(said);
    assert_int_equal(code, 0);
    assert_true(right);
}

TEST(test_show_types_refuses_json_and_other_ranks) {
    int code;
    test_stderr_keep();
    free(show_text("types", "--json", &code));
    bool right = code == 2 && strstr(test_stderr_text(), "E_USAGE");
    test_stderr_keep();
    free(show_text("types", "--tp 2 --rank 2", &code));
    right &= code == 2 && strstr(test_stderr_text(), "rank=2") != NULL;
    test_stderr_keep();
    free(show_text("types", "--tp 2 --check-types off", &code));
    right &= code == 2 && strstr(test_stderr_text(), "check-types=off") != NULL;
    assert_true(right);
}

/* A technique with a mistake in the last stage only: the reader of its first all-reduce reads the partial sum. */
static bool always(const struct plan *plan) { return plan != NULL; }
static enum status spoil_last_stage(const struct plan *plan, struct program *p) {
    int at = 0;
    if (plan->place.rank.pp + 1 < plan->place.n.pp) return OK;
    while (strcmp(p->steps[at].op->name, "tp_exit")) at++;
    for (int i = at + 1; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k] == p->steps[at].out[0]) p->steps[i].in[k] = p->steps[at].in[0];
    return OK;
}
static const struct technique spoiler = {.name = "spoiler", .wanted = always, .rewrite = spoil_last_stage};

TEST(test_show_types_refuses_what_fits_on_rank_0_only) {
    const struct technique *techniques[MAX_TECHNIQUES];
    struct recipe spoilt = train_recipe;
    struct plan p = parity_plan();
    p.mesh.tp = p.mesh.pp = 2;
    assert_ok(plan_settle(&p, 4));
    memcpy(techniques, train_recipe.techniques, (size_t)spoilt.n_techniques * sizeof *techniques);
    techniques[spoilt.n_techniques++] = &spoiler;
    spoilt.techniques = techniques;
    assert_fails(show_types(&p, &spoilt, 0), E_INTERNAL, "on rank 2 (pp1 tp0)", "h4.proj.part over tp",
                 "after spoiler");
}

TESTS(unit_test(test_show_mesh_counts_the_groups_of_96_ranks), unit_test(test_show_mesh_spreads_over_small_nodes),
      unit_test(test_show_mesh_deals_ranks_round_the_nodes), unit_test(test_show_mesh_groups_are_partitions),
      unit_test(test_show_mesh_bytes_are_the_bills), unit_test(test_show_mesh_of_one_rank_says_so),
      unit_test(test_show_mesh_does_not_hide_that_it_could_not_write),
      unit_test(test_show_params_counts_states_by_stage_and_precision),
      unit_test(test_show_params_repeats_what_it_was_asked), unit_test(test_show_params_says_it_in_words),
      unit_test(test_show_params_writes_every_stage), unit_test(test_show_params_reproduces_the_papers_table),
      unit_test(test_show_refuses_options_that_it_would_not_read),
      unit_test(test_show_params_refuses_what_the_formulas_do_not_know),
      unit_test(test_show_types_prints_a_line_a_slot_and_a_param),
      unit_test(test_show_types_refuses_json_and_other_ranks),
      unit_test(test_show_types_refuses_what_fits_on_rank_0_only))
