/* ranks: 1 2 4  device: cpu
 *
 * Ranks with different numbers of tokens, one rank with none, compared with all tokens on one rank. Every compared
 * number is a sum of at most 100 products of numbers below 4, in another order: the bound is 100 roundings of
 * 100 x 16. */
#include "lessons/03-data-parallelism/scale/scale.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { N_MICRO = 3, MOST_TOKENS = 8 };
static const double BOUND = 100 * 1600 * 1.2e-16;

/* Tokens of microbatch m of rank r. UNEVEN: every microbatch has its own number, and rank 1 has none. */
enum counts { EVEN, UNEVEN, NONE };
static int64_t n_tokens(enum counts counts, int r, int m) {
    if (counts == NONE || (counts == UNEVEN && r == 1)) return 0;
    return counts == EVEN ? 4 : 1 + (3 * r + 5 * m) % MOST_TOKENS;
}

struct batch { double x[N_MICRO][MOST_TOKENS * SCALE_C], t[N_MICRO][MOST_TOKENS]; struct microbatch micro[N_MICRO]; };

/* Tokens are a function of (rank, microbatch, place), so that every caller gets the same. Ranks also have different
 * targets. */
static void make_batch(struct batch *b, enum counts counts, int r) {
    for (int m = 0; m < N_MICRO; m++) {
        uint64_t stream = (uint64_t)(r * N_MICRO + m);
        for (int i = 0; i < MOST_TOKENS * SCALE_C; i++) b->x[m][i] = 2 * rng_uniform(1, stream, (uint64_t)i) - 1;
        for (int i = 0; i < MOST_TOKENS; i++) b->t[m][i] = rng_uniform(2, stream, (uint64_t)i) + r + 0.5 * m;
        b->micro[m] = (struct microbatch){n_tokens(counts, r, m), b->x[m], b->t[m]};
    }
}

static const double W[SCALE_C] = {0.5, -1, 0.25, 2};

/* Sum over all ranks' tokens, one after the other, then divide once by their number. */
static double serial(enum counts counts, double *loss, double g[SCALE_C]) {
    struct batch b;
    double all = 0;
    *loss = 0;
    memset(g, 0, SCALE_C * sizeof *g);
    for (int r = 0; r < comm_world_size(); r++)
        for (int m = 0; m < N_MICRO; m++) all += (double)n_tokens(counts, r, m);
    for (int r = 0; r < comm_world_size(); r++) {
        make_batch(&b, counts, r);
        for (int m = 0; m < N_MICRO; m++) microbatch_add(&b.micro[m], W, 1 / all, loss, g);
    }
    return all;
}

struct outcome {
    enum status status;
    double loss, g[SCALE_C], right_loss, right_g[SCALE_C];
    struct ledger_entry sent;
};

static struct outcome run(enum counts counts) {
    struct outcome o = {.loss = 1e3, .g = {1e3, 1e3, 1e3, 1e3}};
    struct batch b;
    make_batch(&b, counts, comm_world_rank());
    group_ledger_reset(group_world());
    o.status = scale_step(group_world(), b.micro, N_MICRO, W, &o.loss, o.g);
    o.sent = group_ledger(group_world())->entry[COMM_ALL_REDUCE];
    serial(counts, &o.right_loss, o.right_g);
    return o;
}

/* Is it a number that a known mistake gives? */
static const char *mistake_of(enum counts counts, int where, double value) {
    struct batch b;
    double sum = 0, means = 0;
    for (int r = 0; r < comm_world_size(); r++) {
        double loss = 0, g[SCALE_C] = {0}, own = 0;
        make_batch(&b, counts, r);
        for (int m = 0; m < N_MICRO; m++) microbatch_add(&b.micro[m], W, 1, &loss, g);
        for (int m = 0; m < N_MICRO; m++) own += (double)n_tokens(counts, r, m);
        sum += where < 0 ? loss : g[where];
        if (own > 0) means += (where < 0 ? loss : g[where]) / own;
    }
    if (fabs(value - sum) <= 1e-9 * fabs(sum)) return ": yours is a sum that nothing divides";
    if (fabs(value - means) <= 1e-9 * fabs(means)) return ": in yours each rank divides by its own tokens";
    if (fabs(value * comm_world_size() - means) <= 1e-9 * fabs(means)) return ": yours is the mean of the ranks' means";
    return "";
}

/* On all ranks; `where`: the element of the gradient, -1: the loss. */
static void assert_number(const char *name, enum counts counts, int where, double value, double right) {
    bool same = fabs(value - right) <= BOUND, all = agree_all(same);
    char element[16] = "";
    if (where >= 0) snprintf(element, sizeof element, "[%d]", where);
    if (!same)
        fail_msg("%s%s: you say %.10g, right is %.10g%s", name, element, value, right,
                 mistake_of(counts, where, value));
    if (!all) fail_msg("%s%s is wrong on another rank", name, element);
}

TEST(test_scale_counts_the_tokens_of_all_ranks) {
    for (enum counts counts = EVEN; counts <= NONE; counts++) {
        struct batch b;
        double loss, g[SCALE_C], count = -1, all = serial(counts, &loss, g);
        make_batch(&b, counts, comm_world_rank());
        enum status status = scale_count_tokens(group_world(), b.micro, N_MICRO, &count);
        bool right = agree_all(count == all);
        assert_ok(status);
        if (count != all) fail_msg("tokens of all ranks: you say %.17g, right is %.17g", count, all);
        if (!right) fail_msg("another rank has another number of tokens of all ranks");
    }
}

TEST(test_scale_gradient_is_that_of_the_whole_batch) {
    for (enum counts counts = EVEN; counts <= UNEVEN; counts++) {
        struct outcome o = run(counts);
        assert_ok(o.status);
        for (int c = 0; c < SCALE_C; c++) assert_number("g", counts, c, o.g[c], o.right_g[c]);
    }
}

TEST(test_scale_loss_is_the_mean_over_all_tokens) {
    for (enum counts counts = EVEN; counts <= UNEVEN; counts++) {
        struct outcome o = run(counts);
        assert_ok(o.status);
        assert_number("loss", counts, -1, o.loss, o.right_loss);
    }
}

/* All tokens are masked, on every rank: the gradient is 0, and not NaN, which would end training. */
TEST(test_scale_of_no_tokens_is_zero) {
    struct outcome o = run(NONE);
    double off = agree_max(fmax(fabs(o.loss), fmax(fabs(o.g[0]), fabs(o.g[SCALE_C - 1]))));
    assert_ok(o.status);
    assert_close(off, 0, 0);
}

/* A step may send the count, the loss and the gradient: 6 numbers, for any number of microbatches. */
TEST(test_scale_sums_once_a_step) {
    struct outcome o = run(UNEVEN);
    int n = comm_world_size();
    double most = comm_algorithm_bytes(COMM_ALL_REDUCE, n, (2 + SCALE_C) * sizeof(double));
    bool few = agree_all(o.sent.calls <= 3 && o.sent.bytes <= most), some = agree_all(o.sent.calls >= 1);
    assert_ok(o.status);
    if (o.sent.calls < 1) fail_msg("this rank has called no all-reduce, and each rank has a part of the sums");
    if (!few || !some)
        fail_msg("this rank makes %d all-reduces of %g bytes a step; at most 3 of %g bytes together are needed",
                 (int)o.sent.calls, o.sent.bytes, most);
}

/* DistributedDataParallel computes the mean over ranks of factor x (mean over own tokens). */
TEST(test_scale_factor_repairs_the_mean_of_means) {
    static const double tokens[][4] = {{4, 4, 4, 4}, {1, 2, 3, 10}, {0, 5, 1, 2}, {700, 1, 1, 1}},
    mean[] = {3, -2, 0.5, 7};
    for (int k = 0; k < 4; k++) {
        double all = 0, sum = 0, average = 0;
        for (int r = 0; r < 4; r++) all += tokens[k][r];
        for (int r = 0; r < 4; r++) sum += tokens[k][r] * mean[r];
        for (int r = 0; r < 4; r++) {
            double factor = NAN;
            assert_ok(scale_factor_of_mean(tokens[k][r], all, 4, &factor));
            assert_true(isfinite(factor));
            average += factor * (tokens[k][r] > 0 ? mean[r] : 0) / 4;
        }
        assert_close(average, sum / all, 1e-14);
    }
}

TESTS(unit_test(test_scale_counts_the_tokens_of_all_ranks), unit_test(test_scale_gradient_is_that_of_the_whole_batch),
      unit_test(test_scale_loss_is_the_mean_over_all_tokens), unit_test(test_scale_of_no_tokens_is_zero),
      unit_test(test_scale_sums_once_a_step), unit_test(test_scale_factor_repairs_the_mean_of_means))
