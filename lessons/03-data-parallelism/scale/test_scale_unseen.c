/* ranks: 1 2 4  device: cpu
 *
 * Groups other than the world, and batches that the other tests do not have: one microbatch, none, many tokens. */
#include "lessons/03-data-parallelism/scale/scale.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <string.h>

enum { MOST = 100 };
static const double W[SCALE_C] = {-1.5, 0.75, 2, 0.125};

struct one { double x[MOST * SCALE_C], t[MOST]; struct microbatch micro; };

/* Rank r of the world has 7 + 31 r tokens. */
static void make_one(struct one *b, int r) {
    for (int i = 0; i < MOST * SCALE_C; i++) b->x[i] = 2 * rng_uniform(5, (uint64_t)r, (uint64_t)i) - 1;
    for (int i = 0; i < MOST; i++) b->t[i] = rng_uniform(6, (uint64_t)r, (uint64_t)i) - r;
    b->micro = (struct microbatch){7 + 31 * (r % 4) % MOST, b->x, b->t};
}

/* One rank with the tokens of the world's ranks first, first + by, ...; rank r has n[r] microbatches, 0 or 1. */
static double serial(int first, int by, const int *n, double *loss, double g[SCALE_C]) {
    static struct one b;
    double all = 0;
    *loss = 0;
    memset(g, 0, SCALE_C * sizeof *g);
    for (int pass = 0; pass < 2; pass++)
        for (int r = first; r < comm_world_size(); r += by) {
            make_one(&b, r);
            if (!n[r]) continue;
            if (pass == 0) all += (double)b.micro.n_tokens;
            else microbatch_add(&b.micro, W, 1 / all, loss, g);
        }
    return all;
}

/* Largest error of count, loss and gradient on any rank. */
static void check(const struct group *group, int first, int by, const int *n) {
    static struct one mine;
    double count = -1, loss = NAN, g[SCALE_C] = {NAN, NAN, NAN, NAN}, right_loss, right[SCALE_C];
    int rank = comm_world_rank();
    make_one(&mine, rank);
    enum status counted = scale_count_tokens(group, &mine.micro, n[rank], &count);
    enum status stepped = scale_step(group, &mine.micro, n[rank], W, &loss, g);
    double off = fabs(count - serial(first, by, n, &right_loss, right));
    off = fmax(off, isnan(loss) ? INFINITY : fabs(loss - right_loss));
    for (int c = 0; c < SCALE_C; c++) off = fmax(off, isnan(g[c]) ? INFINITY : fabs(g[c] - right[c]));
    off = agree_max(off);
    assert_ok(counted);
    assert_ok(stepped);
    assert_close(off, 0, 400 * 100 * 1.2e-16);               /* 400 tokens, each at most 100 */
}

/* Even ranks are one group, odd ranks another, as with tensor parallelism. */
TEST(test_scale_in_a_group_of_some_ranks) {
    static const int one[64] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct group *half = NULL;
    int rank = comm_world_rank();
    assert_ok(group_create("half", rank % 2, rank, &half));
    check(half, rank % 2, 2, one);
    group_destroy(&half);
}

/* The last rank has no microbatch. */
TEST(test_scale_of_a_rank_without_microbatches) {
    int n[64] = {1, 1, 1, 1, 1, 1, 1, 1};
    n[comm_world_size() - 1] = comm_world_size() == 1;
    check(group_world(), 0, 1, n);
}

TESTS(unit_test(test_scale_in_a_group_of_some_ranks), unit_test(test_scale_of_a_rank_without_microbatches))
