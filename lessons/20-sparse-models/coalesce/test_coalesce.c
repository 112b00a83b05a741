/* ranks: 1  device: cpu
 *
 * Coalescing of a few occurrences by hand, then of many: in one process, and divided over owners of rows. */
#include "lessons/20-sparse-models/coalesce/coalesce.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <string.h>

enum { MANY = 400, ROWS = 300, WIDE = 3 };

struct result { struct coalesced c; int64_t *row; double *g; };

static enum status run(const int64_t *row, const double *g, int64_t n, int64_t D, int64_t n_rows, struct result *r) {
    size_t numbers = (size_t)(n * D) * sizeof *g;
    r->row = test_block((size_t)n * sizeof *row), r->g = test_block(numbers);
    r->c = (struct coalesced){-1, r->row, r->g};
    return coalesce(test_block_of(row, (size_t)n * sizeof *row), test_block_of(g, numbers), n, D, n_rows, &r->c);
}

static const int64_t BAGS[] = {7, 2, 7, -1, 4, 2, 7};
static const double G[] = {1, 2, 3, 0, -1, 1, 9, 9, 5, 5, 1, -2, 0.5, 0};

TEST(test_coalesce_has_every_row_once) {
    static const int64_t rows[] = {2, 4, 7};
    static const double sums[] = {4, -2, 5, 5, 0.5, 3};
    struct result r;
    assert_ok(run(BAGS, G, 7, 2, 8, &r));
    if (r.c.n != 3) fail_msg("rows 7 2 7 - 4 2 7 are 3 rows, and you say %d", (int)r.c.n);
    for (int i = 0; i < 3; i++)
        if (r.row[i] != rows[i]) fail_msg("rows are 2, 4, 7, in this order; row %d is %d", i, (int)r.row[i]);
    for (int i = 0; i < 6; i++)
        if (r.g[i] != sums[i])
            fail_msg("row %d: number %d of its gradient is %g, and you say %g", (int)rows[i / 2], i % 2, sums[i],
                     r.g[i]);
}

/* 1 + 1e16 is 1e16 in doubles, so the sum is 0 in this order, and 1 in reverse order. */
TEST(test_coalesce_adds_in_the_order_of_samples) {
    static const int64_t row[] = {5, 3, 5, 5};
    static const double g[] = {1, 7, 1e16, -1e16};
    struct result r;
    assert_ok(run(row, g, 4, 1, 6, &r));
    assert_int_equal(r.c.n, 2);
    if (r.g[1] != 0) fail_msg("1 + 1e16 - 1e16, in the order of samples, is 0 in doubles, and you say %g", r.g[1]);
}

TEST(test_coalesce_refuses_rows_that_are_not_there) {
    static const int64_t none[] = {-1, -1};
    struct result r;
    assert_ok(run(none, G, 2, 2, 8, &r));
    if (r.c.n != 0) fail_msg("two empty places name no row, and you say %d", (int)r.c.n);
    assert_ok(run(BAGS, G, 0, 2, 8, &r));
    assert_int_equal(r.c.n, 0);
    assert_fails(run(BAGS, G, 7, 2, 7, &r), E_DATA, "row 7");
}

TEST(test_coalesce_squares_are_of_sums) {
    struct result r;
    assert_ok(run(BAGS, G, 7, 2, 8, &r));
    double squares = coalesced_squares(&r.c, 2);
    if (squares != 79.25)
        fail_msg("4, -2, 5, 5, 0.5, 3: the squares add up to 79.25, and you say %g%s", squares,
                 squares == 71.25 ? ": those of the single gradients" : "");
}

/* ---- the update ---- */
TEST(test_coalesce_updates_a_row_once) {
    double w[8][2] = {{0}}, kept[8] = {0};
    struct result r;
    for (int v = 0; v < 8; v++) w[v][0] = w[v][1] = 1, kept[v] = 0.5;
    assert_ok(run(BAGS, G, 7, 2, 8, &r));
    coalesced_update(&r.c, 2, 0.1, 0.01, 0.5, &w[0][0], kept);
    double G4 = 0.5 + (2.5 * 2.5 + 2.5 * 2.5) / 2;
    assert_close(kept[4], G4, 1e-14);
    assert_close(w[4][0], 1 - 0.1 * 2.5 / (sqrt(G4) + 0.01), 1e-14);
    assert_close(kept[7], 0.5 + (0.25 * 0.25 + 1.5 * 1.5) / 2, 1e-14);
    assert_close(w[7][1], 1 - 0.1 * 1.5 / (sqrt(kept[7]) + 0.01), 1e-14);
    for (int v = 0; v < 8; v++)
        if (v != 2 && v != 4 && v != 7 && (w[v][0] != 1 || w[v][1] != 1 || kept[v] != 0.5))
            fail_msg("row %d was named by no one, and has changed", v);
}

TEST(test_coalesce_leaves_a_refused_step_alone) {
    double w[8][2] = {{3}}, kept[8] = {2}, w_before[8][2], kept_before[8];
    struct result r;
    memcpy(w_before, w, sizeof w), memcpy(kept_before, kept, sizeof kept);
    assert_ok(run(BAGS, G, 7, 2, 8, &r));
    coalesced_update(&r.c, 2, 0.1, 0.01, NAN, &w[0][0], kept);
    if (memcmp(w, w_before, sizeof w) || memcmp(kept, kept_before, sizeof kept))
        fail_msg("the factor is not a number: the step was refused, and nothing may change");
}

/* ---- many rows ---- */
/* The sums one after the other in doubles, of every row that occurs. */
static void assert_sums(const struct result *r, const int64_t *row, const double *g) {
    static double sum[ROWS][WIDE];
    int64_t n = 0;
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < MANY; i++)
        for (int d = 0; d < WIDE; d++) sum[row[i]][d] += g[i * WIDE + d];
    for (int v = 0; v < ROWS; v++) {
        if (sum[v][0] == 0) continue;
        if (n >= r->c.n || r->row[n] != v) fail_msg("of %d occurrences of %d rows, row %d is missing", MANY, ROWS, v);
        for (int d = 0; d < WIDE; d++)
            if (r->g[n * WIDE + d] != sum[v][d])
                fail_msg("row %d: number %d of its gradient is %.17g, and you say %.17g", v, d, sum[v][d],
                         r->g[n * WIDE + d]);
        n++;
    }
    expect_number("rows that occur", r->c.n, n);
}

/* ---- owners ---- */
/* An owner has the rows of one remainder, and reads all samples. Rows of other owners are empty places. */
TEST(test_coalesce_of_owners_is_that_of_one) {
    int64_t row[MANY], mine[MANY];
    double g[MANY * WIDE], w[2][ROWS * WIDE] = {{0}}, kept[2][ROWS] = {{0}}, squares = 0;
    struct result r;
    for (int i = 0; i < MANY; i++) row[i] = (int64_t)(rng_uniform(1, 2, (uint64_t)i) * 1.2 * ROWS) % ROWS;
    for (int i = 0; i < MANY * WIDE; i++) g[i] = rng_normal(3, 4, (uint64_t)i);
    assert_ok(run(row, g, MANY, WIDE, ROWS, &r));
    assert_sums(&r, row, g);
    double whole = coalesced_squares(&r.c, WIDE);
    coalesced_update(&r.c, WIDE, 0.1, 1e-6, 1, w[0], kept[0]);
    for (int owner = 0; owner < 3; owner++) {
        for (int i = 0; i < MANY; i++) mine[i] = row[i] % 3 == owner ? row[i] : -1;
        assert_ok(run(mine, g, MANY, WIDE, ROWS, &r));
        squares += coalesced_squares(&r.c, WIDE);
        coalesced_update(&r.c, WIDE, 0.1, 1e-6, 1, w[1], kept[1]);
    }
    assert_close(squares, whole, 1e-12 * whole);
    if (memcmp(w[0], w[1], sizeof w[0]) || memcmp(kept[0], kept[1], sizeof kept[0]))
        fail_msg("three owners of rows have other bits than one: in which order do you add?");
}

TESTS(unit_test(test_coalesce_has_every_row_once), unit_test(test_coalesce_adds_in_the_order_of_samples),
      unit_test(test_coalesce_refuses_rows_that_are_not_there), unit_test(test_coalesce_squares_are_of_sums),
      unit_test(test_coalesce_updates_a_row_once), unit_test(test_coalesce_leaves_a_refused_step_alone),
      unit_test(test_coalesce_of_owners_is_that_of_one))
