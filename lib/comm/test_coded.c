/* ranks: 1 2 4 8  device: cpu
 *
 * Coded sums equal, in every bit on every rank, those of one process that does the same to the gradients of all ranks,
 * in rank order and by the codecs' plain form. Tested over several steps with feedback, and with uneven parts. */
#include "lib/comm/coded.h"
#include "lib/ops/test_codec.h"
#include "tests/test.h"

#include "lib/base/rng.h"

enum { STEPS = 3, N_COUNTS = 6 };
static const int64_t COUNTS[N_COUNTS] = {1, 3, 8, 257, 1000, 5003};

static float term(int rank, int step, int64_t i) {
    float x = (float)rng_normal((uint64_t)step, (uint64_t)rank, (uint64_t)i);
    return ldexpf(x, (int)((i * 5 + rank * 3) % 9) - 4);
}

/* A sum and its oracle. */
struct both {
    struct coded coded;
    float *x;                                                        /* of this rank: (count) */
    float *terms, *residuals, *sum, *sum_residual;                   /* of the oracle: (n ranks, count) */
};

static float *zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

static void both_init(struct both *b, struct codec codec, int64_t count, bool feedback) {
    int n = comm_world_size();
    *b = (struct both){.coded = {.codec = codec, .group = group_world(), .count = count}, .x = zeros(count),
                       .terms = zeros(n * count), .sum = zeros(count)};
    b->coded.sent = calloc(2, (size_t)coded_wire_bytes(&codec, count, n) + 1);
    b->coded.got = b->coded.sent + coded_wire_bytes(&codec, count, n);
    if (!feedback) return;
    b->residuals = zeros(n * count);
    b->sum_residual = zeros(count);
    b->coded.residual = zeros(count);
    b->coded.sum_residual = zeros(coded_part(count, n));
}

static void both_fini(struct both *b) {
    float *all[] = {b->x, b->terms, b->sum, b->residuals, b->sum_residual, b->coded.residual, b->coded.sum_residual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(b->coded.sent);
}

static bool all_reduce(struct coded *c, float *x) {
    return coded_reduce_scatter_start(c, x) == OK && coded_reduce_scatter_wait(c) == OK &&
           coded_all_gather_start(c) == OK && coded_all_gather_wait(c) == OK;
}

static bool step(struct both *b, int at) {
    int64_t count = b->coded.count;
    for (int r = 0; r < comm_world_size(); r++)
        for (int64_t i = 0; i < count; i++) b->terms[r * count + i] = term(r, at, i);
    memcpy(b->x, b->terms + comm_world_rank() * count, (size_t)count * sizeof *b->x);
    codec_plain_all_reduce(&b->coded.codec, comm_world_size(), count, b->terms, b->residuals, b->sum_residual, b->sum);
    return all_reduce(&b->coded, b->x) && codec_same_bits(b->x, b->sum, count);
}

/* Do this rank's residuals, of its terms and of its part of the sum, equal the oracle's? */
static bool same_residuals(const struct both *b) {
    int64_t count = b->coded.count, me = comm_world_rank();
    int64_t own = coded_own_count(count, comm_world_size(), (int)me), part = coded_part(count, comm_world_size());
    return !b->residuals || (codec_same_bits(b->coded.residual, b->residuals + me * count, count) &&
                             (!own || codec_same_bits(b->coded.sum_residual, b->sum_residual + me * part, own)));
}

static bool each(bool (*holds)(struct codec, int64_t count, bool feedback)) {
    bool ok = true;
    for (int k = 0; k < N_CODECS; k++)
        for (int s = 0; s < N_COUNTS; s++)
            for (int feedback = 0; feedback < 2; feedback++) {
                const struct codec codec = {(enum codec_kind)k, 3};
                bool here = holds(codec, COUNTS[s], feedback);
                if (!here) print_error("%s of %d, feedback %d\n", codec_name(codec.kind), (int)COUNTS[s], feedback);
                ok &= here;
            }
    return agree_all(ok);
}

static bool is_its_oracle(struct codec codec, int64_t count, bool feedback) {
    struct both b;
    bool ok = true;
    both_init(&b, codec, count, feedback);
    for (int s = 0; s < STEPS; s++) ok &= step(&b, s);
    ok &= same_residuals(&b);
    both_fini(&b);
    return ok;
}

TEST(test_coded_sum_is_one_process_in_every_bit) {
    bool ok = each(is_its_oracle);
    assert_true(ok);
}

/* A rank sends 2 (n-1) codes of the longest part. Compare the formula with the ledger of a sum. */
static bool sends_its_formula(struct codec codec, int64_t count, bool feedback) {
    int n = comm_world_size();
    double expected = (n - 1) * (double)codec_bytes(&codec, (count + n - 1) / n);
    struct both b;
    both_init(&b, codec, count, feedback);
    group_ledger_reset(group_world());
    bool ok = step(&b, 0);
    const struct ledger_entry *e = group_ledger(group_world())->entry;
    ok &= e[COMM_ALL_TO_ALL].bytes == expected && e[COMM_ALL_GATHER].bytes == expected;
    ok &= e[COMM_ALL_TO_ALL].calls == 1 && e[COMM_ALL_GATHER].calls == 1 && e[COMM_ALL_REDUCE].calls == 0;
    ok &= (double)coded_wire_bytes(&codec, count, n) * (n - 1) == expected * n;
    both_fini(&b);
    return ok;
}

TEST(test_coded_sum_sends_what_its_formula_says) {
    bool ok = each(sends_its_formula);
    assert_true(ok);
}

/* With a constant gradient, the error of the sums of many steps is only the residual at the end, so no error is lost.
 * Without feedback only 3 % of the elements would ever be sent, always the same ones. */
TEST(test_coded_feedback_loses_nothing) {
    enum { COUNT = 200, TIMES = 400 };
    bool ok = true;
    for (enum codec_kind k = CODEC_SIGN; k <= CODEC_TOPK; k++) {
        struct both b;
        double total[COUNT] = {0}, exact[COUNT] = {0}, worst = 0, most = 0;
        both_init(&b, (struct codec){k, 3}, COUNT, true);
        for (int s = 0; s < TIMES; s++) {
            for (int i = 0; i < COUNT; i++) b.x[i] = 1 + 0.5f * term(comm_world_rank(), 0, i) / 16;
            ok &= all_reduce(&b.coded, b.x);
            for (int i = 0; i < COUNT; i++) total[i] += b.x[i];
        }
        for (int r = 0; r < comm_world_size(); r++)
            for (int i = 0; i < COUNT; i++) exact[i] += TIMES * (1 + 0.5 * (double)term(r, 0, i) / 16);
        for (int i = 0; i < COUNT; i++) {
            worst = fmax(worst, fabs(total[i] - exact[i]));
            most = fmax(most, fabs(exact[i]));
        }
        /* each element waits 1/0.03 = 33 of 400 steps at most twice: as a term, and within the sum */
        if (worst > 0.25 * most) print_error("%s: %g of %g\n", codec_name(k), worst, most);
        ok &= worst < 0.25 * most;
        both_fini(&b);
    }
    ok = agree_all(ok);
    assert_true(ok);
}

/* A NaN on one rank reaches all ranks. */
TEST(test_coded_nan_reaches_every_rank) {
    enum { COUNT = 300 };
    bool ok = true;
    for (int k = 0; k < N_CODECS; k++) {
        struct both b;
        bool found = false;
        both_init(&b, (struct codec){(enum codec_kind)k, 3}, COUNT, false);
        for (int i = 0; i < COUNT; i++) b.x[i] = term(comm_world_rank(), 0, i);
        if (comm_world_rank() == comm_world_size() - 1) b.x[17] = NAN;
        ok &= all_reduce(&b.coded, b.x);
        for (int i = 0; i < COUNT; i++) found |= isnan(b.x[i]);
        ok &= found;
        both_fini(&b);
    }
    ok = agree_all(ok);
    assert_true(ok);
}

TESTS(unit_test(test_coded_sum_is_one_process_in_every_bit), unit_test(test_coded_sum_sends_what_its_formula_says),
      unit_test(test_coded_feedback_loses_nothing), unit_test(test_coded_nan_reaches_every_rank))
