/* ranks: 1  device: cpu
 *
 * A tensor of two rows of three, on up to four ranks, with one kind of error per test. A test in which no suspicion may
 * fit first shows a case in which one fits. */
#include "lib/base/rng.h"
#include "oracle/suspect.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { N = 6, RANKS = 4 };
#define NAME "h.0.weight.grad"
static const double LIMIT = 1e-9;

signature ranks_unsummed, ranks_unaveraged, ranks_untied, ranks_one_rank;

struct world { struct evidence e; struct kept run, reference; double x[N], y[N]; char detail[160]; };
static struct world w;

static double draw(int stream, int i) { return rng_normal(11, (uint64_t)stream, (uint64_t)i); }

static double *give(struct kept *k, const char *name, int rank, int rows, int part, int parts) {
    struct kept_piece p = {.rank = rank, .part = part, .parts = parts,
                           .box = {.n_axes = 2, .of = {2, 3}, .n = {rows, 3}}};
    snprintf(p.name, sizeof p.name, "%s", name);
    double *x = kept_add(k, &p);
    assert_non_null(x);
    return x;
}

static void begin(enum verdict verdict) {
    const struct box box = {.n_axes = 2, .of = {2, 3}, .n = {2, 3}};
    kept_fini(&w.run);
    kept_fini(&w.reference);
    w = (struct world){.detail = ""};
    for (int i = 0; i < N; i++) w.x[i] = w.y[i] = draw(1, i);
    memcpy(give(&w.reference, NAME, 0, 2, 0, 1), w.y, sizeof w.y);
    w.e = (struct evidence){.c = {.step = 1, .name = NAME, .verdict = verdict}, .limit = LIMIT, .ranks = RANKS,
                            .run = &w.run, .reference = &w.reference, .clip_factor = 1};
    w.e.x = (struct whole){NAME, box, w.x, N, 0, 0, 0, 0};
    w.e.y = (struct whole){NAME, box, w.y, N, 0, 0, 0, 0};
}

/* Add a rank's copy: factor y + noise. */
static void copy(int rank, double factor, const double noise[N]) {
    double *x = give(&w.run, NAME, rank, 2, 0, 1);
    for (int i = 0; i < N; i++) x[i] = factor * w.y[i] + (noise ? noise[i] : 0);
}

/* n ranks whose copies sum to `total` times the reference, each with its own noise. */
static void summands(int n, double total) {
    double left[N] = {0};
    begin(TENSOR_APART);
    for (int r = 0; r < n; r++) {
        double noise[N];
        for (int i = 0; i < N; i++) noise[i] = r == n - 1 ? -left[i] : draw(2 + r, i), left[i] += noise[i];
        copy(r, total / n, noise);
    }
}

static bool fits(signature *f) {
    memset(w.detail, 0, sizeof w.detail);
    status_clear();
    return f(&w.e, w.detail);
}

static bool says(const char *word) { return strstr(w.detail, word) != NULL; }

TEST(test_ranks_a_sum_that_is_missing) {
    for (int n = 2; n <= RANKS; n++) {
        char word[32];
        summands(n, 1);
        snprintf(word, sizeof word, "sum of what the %d ranks", n);
        assert_true(fits(ranks_unsummed) && says(word));
        assert_false(fits(ranks_unaveraged));
        assert_false(fits(ranks_one_rank));
    }
}

TEST(test_ranks_a_mean_that_is_missing) {
    for (int n = 2; n <= RANKS; n++) {
        char word[32];
        summands(n, n);
        snprintf(word, sizeof word, "mean of what the %d ranks", n);
        assert_true(fits(ranks_unaveraged) && says(word));
        assert_false(fits(ranks_unsummed));
    }
}

TEST(test_ranks_a_factor_is_none_of_these) {
    signature *const ALL[] = {ranks_unsummed, ranks_unaveraged, ranks_one_rank};
    const double FACTORS[] = {2, 0.5};
    summands(2, 1);
    assert_true(fits(ranks_unsummed));
    for (int k = 0; k < 2; k++) {
        begin(TENSOR_WRONG);
        for (int r = 0; r < 2; r++) copy(r, FACTORS[k], NULL);
        for (int i = 0; i < N; i++) w.x[i] = FACTORS[k] * w.y[i];
        for (int f = 0; f < 3; f++) assert_false(fits(ALL[f]));           /* the ranks agree, so no sum is missing */
        assert_true(fits(suspect_ratio));
    }
}

TEST(test_ranks_one_rank_alone) {
    for (int wrong = 0; wrong < RANKS; wrong++) {
        char word[32];
        double noise[N] = {0};
        begin(TENSOR_APART);
        noise[wrong] = 1;
        for (int r = 0; r < RANKS; r++) copy(10 + r, 1, r == wrong ? noise : NULL);
        snprintf(word, sizeof word, "rank %d,", 10 + wrong);
        assert_true(fits(ranks_one_rank) && says(word));
        assert_false(fits(ranks_unsummed));
        assert_false(fits(ranks_unaveraged));
    }
}

TEST(test_ranks_none_right_is_not_one_rank) {
    double noise[2][N];
    begin(TENSOR_APART);
    for (int i = 0; i < N; i++) noise[0][i] = draw(5, i), noise[1][i] = draw(6, i);
    copy(0, 1, noise[0]);
    copy(1, 1, noise[1]);
    assert_false(fits(ranks_one_rank));
    copy(2, 1, NULL);
    assert_true(fits(ranks_one_rank) && !says("rank 2,"));
    begin(TENSOR_APART);
    for (int r = 0; r < 2; r++) memset(give(&w.run, NAME, r, 1, 0, 1), 0, 3 * sizeof(double));
    assert_false(fits(ranks_one_rank));
}

TEST(test_ranks_shards_and_summands_are_no_copies) {
    for (int kind = 0; kind < 2; kind++) {
        summands(2, 1);
        int rows = kind ? 2 : 1, parts = kind ? 2 : 1;
        double *other = give(&w.run, NAME, 7, rows, 0, parts);            /* with this piece the sum would be wrong */
        for (int i = 0; i < 3 * rows; i++) other[i] = 1;
        assert_true(fits(ranks_unsummed) && says("2 ranks"));
        assert_false(fits(ranks_one_rank));
    }
    begin(TENSOR_APART);
    copy(0, 1, NULL);                                                     /* one copy is no sum */
    assert_false(fits(ranks_unsummed));
    assert_false(fits(ranks_unaveraged));
    copy(1, 0, (double[N]){0});
    assert_true(fits(ranks_unsummed));
}

TEST(test_ranks_rounding_grows_with_the_copies) {
    for (int beyond = 0; beyond < 2; beyond++) {
        begin(TENSOR_APART);
        for (int r = 0; r < RANKS; r++) {
            double noise[N] = {r % 2 ? 1 : -1};
            noise[N - 1] = LIMIT * (beyond ? 1.5 : 0.9);
            copy(r, 0.25, noise);
        }
        assert_int_equal(fits(ranks_unsummed), !beyond);
    }
}

TEST(test_ranks_noise_is_nothing) {
    summands(3, 1);
    assert_true(fits(ranks_unsummed));
    w.run.values[N - 1] += 1;                                             /* one element of one rank */
    assert_false(fits(ranks_unsummed));
    w.run.values[N - 1] = NAN;
    assert_false(fits(ranks_unsummed));
    assert_false(fits(ranks_unaveraged));
    assert_false(fits(ranks_one_rank));
    assert_false(fits(ranks_untied));
}

TEST(test_ranks_a_tied_weight_that_is_two) {
    begin(TENSOR_WRONG);
    double head[N];
    for (int i = 0; i < N; i++) head[i] = draw(8, i), w.x[i] = w.y[i] - head[i];
    memcpy(give(&w.run, NAME, 0, 2, 0, 1), w.x, sizeof w.x);
    double *known = give(&w.run, "h.1.weight.grad", 0, 2, 0, 1);
    memcpy(known, head, sizeof head);                                     /* fits as well, but the reference has it */
    memcpy(give(&w.reference, "h.1.weight.grad", 0, 2, 0, 1), head, sizeof head);
    assert_false(fits(ranks_untied));
    double *half = give(&w.run, "half.weight.grad", 0, 1, 0, 1);
    memcpy(half, head, 3 * sizeof *half);
    memcpy(give(&w.run, "rest.weight.grad", 0, 1, 0, 1), head + 3, 3 * sizeof *half);     /* its other half */
    assert_false(fits(ranks_untied));
    memcpy(give(&w.run, "lm_head.weight.grad", 0, 2, 0, 1), head, sizeof head);
    assert_true(fits(ranks_untied) && says("lm_head.weight.grad"));
    w.x[2] += 1;
    assert_false(fits(ranks_untied));
}

TESTS(unit_test(test_ranks_a_sum_that_is_missing), unit_test(test_ranks_a_mean_that_is_missing),
      unit_test(test_ranks_a_factor_is_none_of_these), unit_test(test_ranks_one_rank_alone),
      unit_test(test_ranks_none_right_is_not_one_rank), unit_test(test_ranks_shards_and_summands_are_no_copies),
      unit_test(test_ranks_rounding_grows_with_the_copies), unit_test(test_ranks_noise_is_nothing),
      unit_test(test_ranks_a_tied_weight_that_is_two))
