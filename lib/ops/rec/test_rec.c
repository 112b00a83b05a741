/* ranks: 1  device: cpu
 *
 * Bags, interactions, the loss of clicks, and the update of rows, each against its formula. */
#include "lib/ops/rec/binary_cross_entropy.h"
#include "lib/ops/rec/embedding_bag.h"
#include "lib/ops/rec/interaction.h"
#include "lib/ops/rec/rows.h"
#include "lib/ops/test_op.h"
#include <stdlib.h>

/* ---- interactions: slopes ---- */
static void make_dots(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_interaction_dots, 1);
    op_case_input(c, op_type(dtype, "PBD", 2, 3, 5));
    op_case_input(c, op_type(dtype, "PFBD", 2, 4, 3, 5));
    op_case_finish(c);
}
static void make_concat(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_interaction_concat, 1);
    op_case_input(c, op_type(dtype, "PBX", 2, 3, 7));
    op_case_input(c, op_type(dtype, "PFBD", 2, 4, 3, 5));
    op_case_finish(c);
}
static void make_sum(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_interaction_sum, 1);
    op_case_input(c, op_type(dtype, "PB1", 2, 3, 1));
    op_case_input(c, op_type(dtype, "PFBD", 2, 4, 3, 1));
    op_case_finish(c);
}

TEST(test_interaction_gradients_are_slopes) {
    op_case_maker *const makers[] = {make_dots, make_concat, make_sum};
    for (int i = 0; i < 3; i++) {
        op_case_check_gradients(makers[i]);
        op_case_check_precision(makers[i], FP32, 10, 0);
        op_case_check_threads(makers[i]);
    }
}

/* y is x, then the products of pairs (1,0), (2,0), (2,1) ... */
TEST(test_interaction_dots_are_in_the_order_of_pairs) {
    struct op_case c;
    make_dots(&c, FP64);
    op_case_run(&c, ROW_FORWARD);
    const double *x = c.in[0].data, *pooled = c.in[1].data, *y = c.out[0].data;
    const int width = 5 + 10, p = 1, b = 2, s = p * 3 + b;
    double dot = 0;
    for (int d = 0; d < 5; d++) dot += pooled[((p * 4 + 2) * 3 + b) * 5 + d] * pooled[((p * 4 + 0) * 3 + b) * 5 + d];
    assert_close(y[s * width + 4], x[s * 5 + 4], 0);
    assert_close(y[s * width + 5 + 3 + 1], dot, 1e-14);             /* of features 3 and 1: pair (3,1) after (3,0) */
    op_case_free(&c);
}

/* More features than a block has rows, columns and terms, and longer vectors: F = D = 70, two samples. */
enum { MANY = 70, PAIRS = (MANY + 1) * MANY / 2 };
static const double *vector_of(const struct tensor *x, const struct tensor *pooled, int s, int i) {
    return i == 0 ? (const double *)x->data + s * MANY : (const double *)pooled->data + ((i - 1) * 2 + s) * MANY;
}
static double dot(const double *a, const double *b) {
    double sum = 0;
    for (int d = 0; d < MANY; d++) sum += a[d] * b[d];
    return sum;
}
/* The error of a sum of 71 products, of which each factor is below 4 or so: 71 x 71 x 16 x 2^-53. */
static const double SUM_ERROR = 1e-11;

static void check_gradient(const struct op_case *c, int s, int i) {
    const double *dy = (const double *)c->dout[0].data + s * (MANY + PAIRS), *da = vector_of(c->din, c->din + 1, s, i);
    for (int d = 0; d < MANY; d++) {
        double sum = i == 0 ? dy[d] : 0;
        for (int j = 0; j <= MANY; j++) {
            int high = i > j ? i : j, low = i > j ? j : i;
            if (j != i) sum += dy[MANY + high * (high - 1) / 2 + low] * vector_of(c->in, c->in + 1, s, j)[d];
        }
        assert_close(da[d], sum, SUM_ERROR);
    }
}

TEST(test_interaction_dots_of_many_long_vectors) {
    struct op_case c;
    op_case_start(&c, &op_interaction_dots, 1);
    op_case_input(&c, op_type(FP64, "PBD", 1, 2, MANY));
    op_case_input(&c, op_type(FP64, "PFBD", 1, MANY, 2, MANY));
    op_case_finish(&c);
    op_case_run_all(&c);
    for (int s = 0; s < 2; s++) {
        const double *y = (const double *)c.out[0].data + s * (MANY + PAIRS) + MANY;
        for (int i = 1; i <= MANY; i++)
            for (int j = 0; j < i; j++)
                assert_close(*y++, dot(vector_of(c.in, c.in + 1, s, i), vector_of(c.in, c.in + 1, s, j)), SUM_ERROR);
        for (int i = 0; i <= MANY; i++) check_gradient(&c, s, i);
    }
    op_case_free(&c);
}

/* ---- the loss ---- */
TEST(test_binary_cross_entropy_and_its_slope) {
    const struct type logits = op_type(FP64, "PB1", 1, 5, 1), labels = op_type(INT32, "PB", 1, 5),
                      one = op_type(FP64, "1", 1);
    double x[] = {0.3, -2, 800, -800, 7}, dx[5], loss;
    int32_t y[] = {1, 0, 1, 1, -1};                                  /* the last is no sample */
    struct step s = {.op = &op_binary_cross_entropy, .n_in = 2, .n_out = 1};
    struct call c = {.step = &s, .in = {{x, &logits}, {y, &labels}}, .din = {{dx, &logits}}, .out = {{&loss, &one}},
                     .loss_weight = 0.25, .loss_scale = 2};
    assert_ok(op_run(&c, ROW_FORWARD));
    assert_close(loss, 0.25 * (log1p(exp(-0.3)) + log1p(exp(-2)) + 0 + 800), 1e-12);
    assert_ok(op_run(&c, ROW_BACKWARD_INPUT));
    assert_close(dx[0], 0.5 * (1 / (1 + exp(-0.3)) - 1), 1e-15);
    assert_close(dx[1], 0.5 / (1 + exp(2)), 1e-15);
    assert_close(dx[2], 0, 1e-15);
    assert_close(dx[3], -0.5, 1e-15);
    assert_close(dx[4], 0, 0);
}

/* ---- bags ---- */
enum { P = 2, F = 2, B = 2, M = 3, V = 4, D = 2, IDS = P * F * B * M, BAGS = P * F * B };
static const int32_t SOME[IDS] = {0, 1, -1, 3, 3, 3,   2, -1, -1, 1, 0, 2,
                                  0, -1, -1, -1, -1, -1,   3, 2, -1, 2, 2, 1};

/* Pool with a shard of the tables, rows first .. first + n - 1 of 4. The sum over the shards is the whole. */
static void pool(int64_t first, int64_t n, double out[BAGS * D]) {
    struct type ids = op_type(INT32, "PFBM", P, F, B, M), table = op_type(FP64, "FVD", F, V, D);
    struct type kept = op_type(FP64, "FV", F, V), pooled[MAX_OUT];
    double w[F * V * D];
    table = op_type_part(table, 'V', first, n), kept = op_type_part(kept, 'V', first, n);
    for (int64_t i = 0; i < F * n * D; i++)
        w[i] = 1 + (double)shape_global_index(&table.shape, i);
    struct step s = {.op = &op_embedding_bag, .n_in = 1, .n_out = 1, .n_weight = 2};
    struct call c = {.step = &s, .in = {{(void *)SOME, &ids}}, .weight = {{w, &table}, {NULL, &kept}},
                     .out = {{out, &pooled[0]}}};
    assert_ok(op_embedding_bag.shape(&c, pooled));
    assert_ok(op_run(&c, ROW_FORWARD));
}

TEST(test_bags_of_shards_add_up_to_the_whole) {
    double whole[BAGS * D], one[BAGS * D], other[BAGS * D];
    pool(0, 4, whole), pool(0, 2, one), pool(2, 2, other);
    for (int i = 0; i < BAGS * D; i++) assert_close(one[i] + other[i], whole[i], 0);
    assert_close(whole[0], 1 + 3, 0);                                /* p 0, f 0, b 0: rows 0 and 1, column 0 */
    assert_close(whole[3], 3 * 8, 0);                                /* b 1: three times row 3, column 1 */
    assert_close(whole[2 * D], 1 + V * D + 2 * D, 0);                /* f 1, b 0: row 2 of the second table */
    assert_close(whole[5 * D], 0, 0);                                /* p 1, f 0, b 1: an empty bag */
}

TEST(test_an_id_beyond_the_table_is_refused) {
    const struct type ids = op_type(INT32, "PFBM", 1, 1, 1, 1), table = op_type(FP64, "FVD", 1, 4, 1),
                      kept = op_type(FP64, "FV", 1, 4);
    int32_t id = 4;
    double w[4], y;
    struct step s = {.op = &op_embedding_bag, .n_in = 1, .n_out = 1, .n_weight = 2};
    struct type pooled[MAX_OUT];
    struct call c = {.step = &s, .in = {{&id, &ids}}, .weight = {{w, &table}, {NULL, &kept}}, .out = {{&y, pooled}}};
    assert_ok(op_embedding_bag.shape(&c, pooled));
    assert_fails(op_run(&c, ROW_FORWARD), E_DATA, "id 4", "--vocab 5");
}

/* ---- the update of rows ---- */
/* Two records of the bags above, with different vectors. g: their gradient, as large as the tables, for comparison. */
struct update { struct rows rows; double w[F * V * D], kept[F * V], g[F * V * D]; char *records; };

static void update_make(struct update *u, int64_t first, int64_t n) {
    struct type ids = op_type(INT32, "PFBM", P, F, B, M);
    struct type table = op_type_part(op_type(FP64, "FVD", F, V, D), 'V', first, n);
    int64_t bytes = rows_vectors_at(IDS) + arena_align(BAGS * D * (int64_t)sizeof(double));
    u->rows = (struct rows){.ids = ids, .table = table, .record_bytes = bytes, .n_records = 2, .weight = u->w,
                            .kept = u->kept, .index = calloc(1, (size_t)rows_index_bytes(&ids, 2))};
    u->rows.other = u->rows.index + 2 * IDS;
    u->rows.records = u->records = calloc(2, (size_t)bytes);
    memset(u->g, 0, sizeof u->g);
    for (int i = 0; i < F * V * D; i++) u->w[i] = 1, u->kept[i / D] = 0.5;
    for (int k = 0; k < 2; k++) {
        double *vector = (double *)(u->records + k * bytes + rows_vectors_at(IDS));
        memcpy(u->records + k * bytes, SOME, sizeof SOME);
        for (int i = 0; i < BAGS * D; i++) vector[i] = sin(1 + i + 100 * k);
        for (int i = 0; i < IDS; i++)
            for (int d = 0; d < D && SOME[i] >= 0; d++)
                u->g[((i / (B * M) % F) * V + SOME[i]) * D + d] += vector[i / M * D + d];
    }
}
static void update_free(struct update *u) {
    struct occurrence *a = u->rows.index, *b = u->rows.other;
    free(a < b ? a : b);
    free(u->records);
}

/* The vectors of a row in many bags are summed over replicas and records, and the sum is squared once. */
TEST(test_rows_are_coalesced_before_they_are_squared) {
    struct update u;
    double squares, expected = 0;
    update_make(&u, 0, V);
    for (int i = 0; i < F * V * D; i++) expected += u.g[i] * u.g[i];
    rows_sort(&u.rows);
    assert_ok(rows_squares(&u.rows, &squares));
    assert_close(squares, expected, 1e-12);
    assert_ok(rows_update(&u.rows, 0.1, 1e-3, 0.5));
    for (int row = 0; row < F * V; row++) {
        const double *g = u.g + row * D;
        double kept = 0.5 + 0.25 * (g[0] * g[0] + g[1] * g[1]) / D;
        assert_close(u.kept[row], kept, 1e-14);
        for (int d = 0; d < D; d++) assert_close(u.w[row * D + d], 1 - 0.1 * 0.5 * g[d] / (sqrt(kept) + 1e-3), 1e-14);
    }
    assert_ok(rows_update(&u.rows, 0.1, 1e-3, NAN));
    assert_true(!isnan(u.w[0]) && !isnan(u.kept[0]));
    update_free(&u);
}

/* Occurrences of a row stay in the order of samples, and a shard has only its own rows. */
TEST(test_rows_are_sorted_stably) {
    struct update u;
    update_make(&u, 2, 2);
    rows_sort(&u.rows);
    int64_t expected = 0;
    for (int i = 0; i < IDS; i++) expected += 2 * (SOME[i] >= 2);
    assert_int_equal(u.rows.n, expected);
    for (int64_t i = 1; i < u.rows.n; i++) {
        const struct occurrence *a = &u.rows.index[i - 1], *b = &u.rows.index[i];
        assert_true(a->row < b->row || (a->row == b->row && a->id < b->id));
        assert_true(b->row < F * 2);
    }
    update_free(&u);
}

/* More rows than the digits of one pass of the sort. */
TEST(test_many_rows_are_sorted) {
    enum { N = 3000, ROWS = 3000000 };
    struct type ids = op_type(INT32, "PFBM", 1, 1, N, 1);
    int32_t *record = calloc(1, (size_t)rows_vectors_at(N));
    struct occurrence *index = calloc(2 * N, sizeof *index);
    for (int i = 0; i < N; i++)
        record[i] = (int32_t)(rng_uniform(1, 2, (uint64_t)i) * rng_uniform(1, 3, (uint64_t)i) * ROWS);
    struct rows r = {.ids = ids, .table = op_type(FP64, "FVD", 1, ROWS, 1), .records = (char *)record, .n_records = 1,
                     .index = index, .other = index + N};
    rows_sort(&r);
    assert_int_equal(r.n, N);
    for (int i = 0; i < N; i++) assert_int_equal(r.index[i].row, record[r.index[i].id]);
    for (int i = 1; i < N; i++)
        assert_true(r.index[i - 1].row < r.index[i].row ||
                    (r.index[i - 1].row == r.index[i].row && r.index[i - 1].id < r.index[i].id));
    free(record);
    free(index);
}

/* The occurrences of a row in a thousand bags are in the index parts of several threads, but give one update. */
TEST(test_a_row_of_many_bags_is_updated_once) {
    enum { N = 1000 };
    struct type ids = op_type(INT32, "PFBM", 1, 1, N, 1);
    int64_t vectors = rows_vectors_at(N);
    char *record = calloc(1, (size_t)vectors + N * sizeof(double));
    struct occurrence *index = calloc(2 * N, sizeof *index);
    double w[2] = {1, 1}, kept[2] = {0, 0}, sum = 0;
    for (int i = 0; i < N; i++) ((int32_t *)record)[i] = i % 10 == 0;
    for (int i = 0; i < N; i++) ((double *)(record + vectors))[i] = sin(i), sum += i % 10 ? sin(i) : 0;
    struct rows r = {.ids = ids, .table = op_type(FP64, "FVD", 1, 2, 1), .records = record, .n_records = 1,
                     .weight = w, .kept = kept, .index = index, .other = index + N};
    rows_sort(&r);
    assert_ok(rows_update(&r, 0.1, 0, 1));
    assert_close(kept[0], sum * sum, 1e-10);
    assert_close(w[0], 1 - 0.1 * (sum > 0 ? 1 : -1), 1e-10);
    free(record);
    free(index);
}

TESTS(unit_test(test_interaction_gradients_are_slopes), unit_test(test_interaction_dots_are_in_the_order_of_pairs),
      unit_test(test_interaction_dots_of_many_long_vectors),
      unit_test(test_binary_cross_entropy_and_its_slope), unit_test(test_bags_of_shards_add_up_to_the_whole),
      unit_test(test_an_id_beyond_the_table_is_refused), unit_test(test_rows_are_coalesced_before_they_are_squared),
      unit_test(test_rows_are_sorted_stably), unit_test(test_many_rows_are_sorted),
      unit_test(test_a_row_of_many_bags_is_updated_once))
