/* ranks: 1  device: cpu
 *
 * `show mesh` compared with the mesh: every rank is in one group of each axis, with exactly the ranks that differ in
 * that coordinate only. 8 x 4 x 3 ranks by hand. Bytes equal the bill's. */
#define _GNU_SOURCE /* open_memstream */
#include "driver/show/test_show.h"
#include "lib/comm/mesh.h"
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

TESTS(unit_test(test_show_mesh_counts_the_groups_of_96_ranks), unit_test(test_show_mesh_spreads_over_small_nodes),
      unit_test(test_show_mesh_deals_ranks_round_the_nodes),
      unit_test(test_show_mesh_groups_are_partitions), unit_test(test_show_mesh_bytes_are_the_bills),
      unit_test(test_show_mesh_of_one_rank_says_so), unit_test(test_show_mesh_does_not_hide_that_it_could_not_write))
