/* ranks: 1  device: cpu */
#include "models/gpt/gpt.h"
#include "models/llama/llama.h"
#include "oracle/kept.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct shape shape_of(const char *tags, const int64_t *n) {
    struct shape s = {.n_axes = (int)strlen(tags)};
    for (int a = 0; a < s.n_axes; a++) s.axis[a] = axis_whole(tags[a], n[a]);
    return s;
}

struct placing_test { struct kept kept; const double *held; int rank; };
static enum status keep(void *self, const struct placed *p) {
    struct placing_test *t = self;
    return kept_add_placed(&t->kept, p, "", t->rank, t->held, FP64, 1);
}

/* Keep a run of the held elements. Each element's value is its index in our whole tensor. */
static void place(struct placing_test *t, const struct published *row, const struct shape *held, int64_t first,
                  int64_t n) {
    double *x = calloc((size_t)shape_n(held), sizeof *x);
    for (int64_t i = 0; i < shape_n(held); i++) x[i] = (double)shape_global_index(held, i);
    t->held = x;
    assert_ok(place_each(row, 3, held, first, n, keep, t));
    free(x);
}

/* The other project's tensor is complete, and its element (i, j) is our element `ours`(i, j). */
typedef int64_t index_of_ours(int64_t i, int64_t j);
static void assert_matrix(struct placing_test *t, const char *name, int64_t rows, int64_t columns,
                          index_of_ours *ours) {
    struct whole w;
    assert_ok(kept_whole(&t->kept, name, &w));
    assert_int_equal(w.missing, 0);
    assert_int_equal(w.n, rows * columns);
    assert_int_equal(w.box.of[0], rows);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            assert_int_equal((int64_t)w.x[i * columns + j], ours(i, j));
    whole_fini(&w);
}

static const struct published *row_of(const struct published *table, const char *ours) {
    int layer;
    const struct published *row = published_find(table, ours, &layer);
    assert_non_null(row);
    return row;
}

/* ---- qkv: (3, H, D, C), published as (C, 3 H D) ---- */
enum { H = 4, D = 5, C = 7 };
static const int64_t QKV[] = {3, H, D, C};
static const char QKV_NAME[] = "transformer.h.3.attn.c_attn.weight";
static int64_t transposed(int64_t i, int64_t j) { return j * C + i; }

TEST(test_a_matrix_is_transposed) {
    struct placing_test t = {.rank = 0};
    struct shape s = shape_of("3HDC", QKV);
    place(&t, row_of(gpt_published, "h3.qkv.w"), &s, 0, shape_n(&s));
    assert_int_equal(t.kept.n, 1);                                   /* whole: one box */
    assert_matrix(&t, QKV_NAME, C, 3 * H * D, transposed);
    kept_fini(&t.kept);
}

/* Two ranks hold two heads each, in three shards that begin and end anywhere. */
TEST(test_shards_of_heads_make_the_matrix) {
    struct placing_test t = {.rank = 0};
    for (int rank = 0; rank < 2; rank++) {
        struct shape s = shape_of("3HDC", QKV);
        s.axis[1].n = 2, s.axis[1].first = 2 * rank;
        int64_t n = shape_n(&s), cut[] = {0, 53, 54, n};
        for (int i = 0; i < 3; i++) {
            t.rank = 3 * rank + i;
            place(&t, row_of(gpt_published, "h3.qkv.w"), &s, cut[i], cut[i + 1] - cut[i]);
        }
    }
    assert_matrix(&t, QKV_NAME, C, 3 * H * D, transposed);
    kept_fini(&t.kept);
}

/* A rank's heads are three boxes of the published tensor. */
TEST(test_heads_are_a_box_for_each_of_the_three) {
    struct placing_test t = {.rank = 0};
    struct shape s = shape_of("3HDC", QKV);
    s.axis[1].n = 2, s.axis[1].first = 2;
    place(&t, row_of(gpt_published, "h3.qkv.w"), &s, 0, shape_n(&s));
    assert_int_equal(t.kept.n, 3);
    for (int i = 0; i < 3; i++) {
        const struct box *b = &t.kept.piece[i].box;
        assert_int_equal(b->first[1], i * H * D + 2 * D);
        assert_int_equal(b->n[1], 2 * D);
        assert_int_equal(b->n[0], C);
    }
    kept_fini(&t.kept);
}

/* ---- keys and values: (2, J, D, C), published as two of (J D, C) ---- */
static int64_t of_keys(int64_t i, int64_t j) { return i * C + j; }
static int64_t of_values(int64_t i, int64_t j) { return 2 * D * C + i * C + j; }

TEST(test_keys_and_values_are_two_tensors) {
    struct placing_test t = {.rank = 0};
    const int64_t n[] = {2, 2, D, C};
    struct shape s = shape_of("2JDC", n);
    place(&t, row_of(llama_published, "h3.kv.w"), &s, 0, 11);        /* as two shards */
    place(&t, row_of(llama_published, "h3.kv.w"), &s, 11, shape_n(&s) - 11);
    assert_matrix(&t, "model.layers.3.self_attn.k_proj.weight", 2 * D, C, of_keys);
    assert_matrix(&t, "model.layers.3.self_attn.v_proj.weight", 2 * D, C, of_values);
    kept_fini(&t.kept);
}

/* ---- experts: (E, 2, F, C) ---- */
enum { F = 3 };
static int64_t of_expert_1_up(int64_t i, int64_t j) { return (1 * 2 + 1) * F * C + i * C + j; }

TEST(test_experts_have_tensors_of_their_own) {
    struct placing_test t = {.rank = 0};
    const int64_t n[] = {1, 2, F, C};
    struct shape s = shape_of("E2FC", n);
    s.axis[0] = (struct axis){.tag = 'E', .n = 1, .first = 1, .global = 4};
    place(&t, row_of(llama_published, "h3.experts.up.w"), &s, 0, shape_n(&s));
    assert_int_equal(t.kept.n, 2);
    assert_matrix(&t, "model.layers.3.block_sparse_moe.experts.1.w3.weight", F, C, of_expert_1_up);
    kept_fini(&t.kept);
}

/* ---- positions in two runs; padding ---- */
TEST(test_both_runs_of_positions_are_placed) {
    struct placing_test t = {.rank = 0};
    const int64_t n[] = {2, 8, 3};
    struct whole w;
    for (int part = 0; part < 2; part++) {
        struct shape s = shape_of("BTC", n);
        s.axis[1] = axis_zigzag('T', 8, 2, part);
        t.rank = part;
        place(&t, row_of(gpt_published, "h3.res2"), &s, 0, shape_n(&s));
    }
    assert_ok(kept_whole(&t.kept, "transformer.h.3", &w));
    assert_int_equal(w.missing, 0);
    for (int64_t i = 0; i < w.n; i++) assert_int_equal((int64_t)w.x[i], i);
    whole_fini(&w);
    kept_fini(&t.kept);
}

static int64_t same_place(int64_t i, int64_t j) { return i * 3 + j; }
TEST(test_padding_is_left_out) {
    struct placing_test t = {.rank = 0};
    for (int part = 0; part < 2; part++) {
        const int64_t n[] = {4, 3};
        struct shape s = shape_of("VC", n);
        s.axis[0] = (struct axis){.tag = 'V', .n = 4, .first = 4 * part, .global = 5};
        place(&t, row_of(gpt_published, "embed.wte"), &s, 0, shape_n(&s));
    }
    assert_matrix(&t, "transformer.wte.weight", 5, 3, same_place);
    assert_int_equal(t.kept.n_values, 15);
    kept_fini(&t.kept);
}

TEST(test_names_are_found_with_their_layer) {
    int layer;
    assert_non_null(published_find(gpt_published, "h12.fc2.w", &layer));
    assert_int_equal(layer, 12);
    assert_non_null(published_find(gpt_published, "head.lnf.g", &layer));
    assert_int_equal(layer, -1);
    assert_null(published_find(gpt_published, "h12.fc2.w2", &layer));
    assert_null(published_find(gpt_published, "h.fc2.w", &layer));
}

/* ---- assembling ---- */
static void add(struct kept *k, const char *name, int rank, int part, int parts, double a, double b) {
    struct kept_piece p = {.box = {1, {2}, {0}, {2}}, .rank = rank, .part = part, .parts = parts};
    snprintf(p.name, sizeof p.name, "%s", name);
    double *x = kept_add(k, &p);
    x[0] = a, x[1] = b;
}

TEST(test_parts_are_summed_and_replicas_compared) {
    struct kept k = {0};
    struct whole w;
    add(&k, "sum", 0, 0, 2, 1, 2);
    add(&k, "sum", 1, 1, 2, 10, 20);
    add(&k, "alike", 0, 0, 1, 3, 4);
    add(&k, "alike", 1, 0, 1, 3, 4);
    add(&k, "apart", 0, 0, 1, 3, 4);
    add(&k, "apart", 2, 0, 1, 3, 5);
    assert_ok(kept_whole(&k, "sum", &w));
    assert_close(w.x[0], 11, 0);
    assert_close(w.x[1], 22, 0);
    assert_close(w.apart, 0, 0);
    whole_fini(&w);
    assert_ok(kept_whole(&k, "alike", &w));
    assert_close(w.apart, 0, 0);
    whole_fini(&w);
    assert_ok(kept_whole(&k, "apart", &w));
    assert_close(w.apart, 1.0 / 4, 1e-15);
    assert_int_equal(w.rank, 0);
    assert_int_equal(w.other, 2);
    whole_fini(&w);
    assert_fails(kept_whole(&k, "of no piece", &w), E_DATA, "of no piece");
    add(&k, "infinite", 0, 0, 1, INFINITY, 4);
    add(&k, "infinite", 1, 0, 1, 3, 4);
    add(&k, "not a number", 0, 0, 1, NAN, INFINITY);
    add(&k, "not a number", 1, 0, 1, -NAN, INFINITY);
    assert_ok(kept_whole(&k, "infinite", &w));
    assert_true(isinf(w.apart) && w.apart > 0);
    whole_fini(&w);
    assert_ok(kept_whole(&k, "not a number", &w));
    assert_close(w.apart, 0, 0);
    whole_fini(&w);
    kept_fini(&k);
}

/* Two ranks hold the first part, two the second: a sum over tp that dp replicates. */
TEST(test_parts_that_are_replicated_count_once) {
    struct kept k = {0};
    struct whole w;
    for (int rank = 0; rank < 4; rank++) {
        double value = rank % 2 ? 10 : 1;
        add(&k, "sum", rank, rank % 2, 2, value, 2 * value);
        add(&k, "apart", rank, rank % 2, 2, value, rank == 3 ? 25 : 2 * value);
        if (rank != 1) add(&k, "not all", rank, rank, 4, value, value);
        add(&k, "of two kinds", rank, 0, 1 + rank / 2, value, value);
    }
    assert_ok(kept_whole(&k, "sum", &w));
    assert_close(w.x[0], 11, 0);
    assert_close(w.x[1], 22, 0);
    assert_close(w.apart, 0, 0);
    assert_int_equal(w.missing, 0);
    whole_fini(&w);
    assert_ok(kept_whole(&k, "apart", &w));
    assert_close(w.apart, 5.0 / 22, 1e-15);
    assert_int_equal(w.rank, 1);
    assert_int_equal(w.other, 3);
    whole_fini(&w);
    assert_ok(kept_whole(&k, "not all", &w));
    assert_int_equal(w.missing, 2);
    whole_fini(&w);
    assert_fails(kept_whole(&k, "of two kinds", &w), E_FORMAT, "rank 2 one of 2");
    whole_fini(&w);
    kept_fini(&k);
}

TEST(test_what_is_missing_is_counted_and_another_shape_refused) {
    struct kept k = {0};
    struct whole w;
    struct kept_piece p = {.name = "x", .box = {1, {5}, {1}, {2}}, .parts = 1};
    kept_add(&k, &p)[0] = 0, p.box.first[0] = 4, p.box.n[0] = 1;
    kept_add(&k, &p)[0] = 0;
    assert_ok(kept_whole(&k, "x", &w));
    assert_int_equal(w.missing, 2);
    whole_fini(&w);
    p.box.of[0] = 6, p.rank = 3;
    kept_add(&k, &p);
    assert_fails(kept_whole(&k, "x", &w), E_FORMAT, "x: rank 3 gives a piece (1/6@4), and rank 0 one (2/5@1)",
                 "give all pieces the whole");
    whole_fini(&w);
    kept_fini(&k);
}

TEST(test_a_piece_claims_no_memory) {
    struct kept k = {0};
    struct whole w;
    struct kept_piece p = {.name = "x", .box = {1, {INT32_MAX}, {0}, {2}}, .parts = 1};
    kept_add(&k, &p)[0] = 0;
    assert_fails(kept_whole(&k, "x", &w), E_FORMAT, "x: its pieces have 2 elements", "of 2147483647", "64 times");
    whole_fini(&w);
    kept_fini(&k);
}

TESTS(unit_test(test_a_piece_claims_no_memory), unit_test(test_a_matrix_is_transposed),
      unit_test(test_shards_of_heads_make_the_matrix),
      unit_test(test_heads_are_a_box_for_each_of_the_three), unit_test(test_keys_and_values_are_two_tensors),
      unit_test(test_experts_have_tensors_of_their_own), unit_test(test_both_runs_of_positions_are_placed),
      unit_test(test_padding_is_left_out), unit_test(test_names_are_found_with_their_layer),
      unit_test(test_parts_are_summed_and_replicas_compared), unit_test(test_parts_that_are_replicated_count_once),
      unit_test(test_what_is_missing_is_counted_and_another_shape_refused))
