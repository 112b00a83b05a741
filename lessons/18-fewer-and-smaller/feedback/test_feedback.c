/* ranks: 1 2 4  device: cpu
 *
 * One claim per test. Codes are compared with those of lib/ops/codec.c, byte by byte. Sums over ranks are compared with
 * one process that rounds the gradients of all ranks in rank order (lib/ops/test_codec.h, which makes no bytes). */
#include "lessons/18-fewer-and-smaller/feedback/feedback.h"
#include "lib/base/rng.h"
#include "lib/ops/test_codec.h"
#include "tests/test.h"
#include <stdio.h>

enum { MOST = 600, STEPS = 40, N_SIZES = 9, N_COUNTS = 5 };
static const int64_t SIZES[N_SIZES] = {0, 1, 7, 8, 9, 16, 100, 257, 600};
static const struct codec SIGN = {CODEC_SIGN, 0};

/* Fill 2 has numbers of very different sizes; fill 1 has equal numbers, and zeros of both signs. */
static float gradient_at(int fill, int step, int64_t i) {
    float x = (float)rng_normal(18, (uint64_t)(100 * fill + step), (uint64_t)i);
    if (fill == 1) return i % 3 ? 0.5f : i % 2 ? -0.f : 0.f;
    return fill == 2 ? ldexpf(x, (int)(i * 7 % 21) - 10) : x;
}
static void make_gradient(int fill, int step, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++) x[i] = gradient_at(fill, step, i);
}

TEST(test_feedback_a_bit_for_a_number) {
    for (int s = 0; s < N_SIZES; s++) assert_int_equal(feedback_bytes(SIZES[s]), codec_bytes(&SIGN, SIZES[s]));
    assert_int_equal(feedback_bytes(1000003), 125005);
}

static void same_code(const unsigned char *mine, const float *term, int64_t n, const char *of_what) {
    unsigned char code[4 + MOST / 8 + 1];
    codec_encode(&SIGN, term, n, code);
    for (int64_t i = 0; i < codec_bytes(&SIGN, n); i++)
        if (mine[i] != code[i])
            fail_msg("%s, n = %d: byte %d of the code is 0x%02x, and should be 0x%02x", of_what, (int)n, (int)i,
                     mine[i], code[i]);
}

/* Without a residual. The bytes before and after the code must not change, and all bytes of the code are written. */
TEST(test_feedback_codes_are_the_sign_codecs) {
    float x[MOST];
    unsigned char code[4 + MOST / 8 + 4];
    for (int fill = 0; fill < 3; fill++)
        for (int s = 0; s < N_SIZES; s++) {
            memset(code, 0xa5, sizeof code);
            make_gradient(fill, 0, SIZES[s], x);
            assert_ok(feedback_encode(x, SIZES[s], NULL, code + 1));
            same_code(code + 1, x, SIZES[s], "without a residual");
            assert_int_equal(code[0], 0xa5);
            assert_int_equal(code[1 + codec_bytes(&SIGN, SIZES[s])], 0xa5);
        }
}

/* gradient + residual, in float, is encoded; the gradient is only read. */
TEST(test_feedback_encodes_what_is_owed) {
    float x[MOST], kept[MOST], residual[MOST], term[MOST];
    unsigned char code[4 + MOST / 8 + 4];
    for (int fill = 0; fill < 3; fill++)
        for (int s = 1; s < N_SIZES; s++) {
            int64_t n = SIZES[s];
            make_gradient(fill, 1, n, x), make_gradient(2 - fill, 2, n, residual);
            memcpy(kept, x, sizeof kept);
            for (int64_t i = 0; i < n; i++) term[i] = x[i] + residual[i];
            assert_ok(feedback_encode(x, n, residual, code));
            same_code(code, term, n, "with a residual");
            assert_memory_equal(x, kept, (size_t)n * sizeof *x);
        }
}

/* The residual is exactly the term minus the float that the receiver decodes. */
TEST(test_feedback_keeps_what_the_receiver_lacks) {
    float x[MOST], residual[MOST], left[MOST], sent[MOST];
    unsigned char code[4 + MOST / 8 + 4];
    for (int fill = 0; fill < 3; fill++)
        for (int s = 1; s < N_SIZES; s++) {
            int64_t n = SIZES[s];
            make_gradient(fill, 3, n, x), make_gradient(2 - fill, 4, n, residual);
            for (int64_t i = 0; i < n; i++) left[i] = x[i] + residual[i];
            codec_plain(&SIGN, left, n, sent);
            for (int64_t i = 0; i < n; i++) left[i] -= sent[i];
            assert_ok(feedback_encode(x, n, residual, code));
            for (int64_t i = 0; i < n; i++)
                if (memcmp(&residual[i], &left[i], sizeof *left))
                    fail_msg("n = %d: residual[%d] is %.9g, and should be %.9g: of what was owed, %.9g was sent",
                             (int)n, (int)i, residual[i], left[i], sent[i]);
        }
}

TEST(test_feedback_decodes_what_was_meant) {
    float x[MOST], seen[MOST], meant[MOST];
    unsigned char code[4 + MOST / 8 + 4];
    for (int fill = 0; fill < 3; fill++)
        for (int s = 1; s < N_SIZES; s++) {
            int64_t n = SIZES[s];
            make_gradient(fill, 5, n, x);
            codec_encode(&SIGN, x, n, code);
            codec_decode(&SIGN, code, n, meant, CODEC_SET);
            for (int64_t i = 0; i < n; i++) seen[i] = 1e30f;
            assert_ok(feedback_decode(code, n, seen, false));
            assert_memory_equal(seen, meant, (size_t)n * sizeof *seen);
            make_gradient(0, 6, n, seen);
            for (int64_t i = 0; i < n; i++) meant[i] += seen[i];
            assert_ok(feedback_decode(code, n, seen, true));
            assert_memory_equal(seen, meant, (size_t)n * sizeof *seen);
        }
}

/* 40 steps. Each rounds a sum and a difference of numbers below `most`, the largest residual, with a relative error of
 * 2^-24. The test itself sums in double. */
TEST(test_feedback_loses_nothing) {
    enum { N = 100 };
    float x[N], residual[N] = {0}, seen[N];
    double given[N] = {0}, sent[N] = {0}, most = 0;
    unsigned char code[4 + N / 8 + 4];
    for (int step = 0; step < STEPS; step++) {
        make_gradient(2, step, N, x);
        assert_ok(feedback_encode(x, N, residual, code));
        codec_decode(&SIGN, code, N, seen, CODEC_SET);
        for (int i = 0; i < N; i++) given[i] += x[i], sent[i] += seen[i];
        for (int i = 0; i < N; i++) most = fmax(most, fabs(residual[i]) + fabs(seen[i]));
    }
    for (int i = 0; i < N; i++)
        if (!(fabs(sent[i] + residual[i] - given[i]) <= 2 * STEPS * 0x1p-24 * most))
            fail_msg("element %d: %g was sent in %d steps and %g is left, and gradients add up to %g", i, sent[i],
                     STEPS, residual[i], given[i]);
}

TEST(test_feedback_says_what_is_not_finite) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float x[20], residual[20], seen[20];
    unsigned char code[8];
    for (int k = 0; k < 6; k++) {
        make_gradient(0, 7, 20, x), memset(residual, 0, sizeof residual);
        if (k < 3) x[11] = bad[k];
        else residual[11] = bad[k - 3];
        assert_ok(feedback_encode(x, 20, residual, code));
        codec_decode(&SIGN, code, 20, seen, CODEC_SET);
        assert_true(isnan(seen[0]));
    }
}

/* f(x) = |x0 + x1| / 4 + |x0 - x1|, from (1, 1). Its gradient's signs are +- (1, -1), so steps along signs never change
 * x0 + x1, and f stays >= 1/2 (Karimireddy et al. 2019, counterexample 3). Rates fall as 1/sqrt(step). */
TEST(test_feedback_gets_where_signs_alone_do_not) {
    float x[2] = {1, 1}, residual[2] = {0}, seen[2];
    unsigned char code[8];
    for (int step = 0; step < 4000; step++) {
        float plus = x[0] + x[1] < 0 ? -0.25f : 0.25f, minus = x[0] - x[1] < 0 ? -1 : 1;
        const float g[2] = {plus + minus, plus - minus};
        assert_ok(feedback_encode(g, 2, residual, code));
        assert_ok(feedback_decode(code, 2, seen, false));
        for (int i = 0; i < 2; i++) x[i] -= 0.1f / sqrtf((float)(step + 1)) * seen[i];
    }
    double f = fabs(x[0] + x[1]) / 4 + fabs(x[0] - x[1]);
    if (!(f < 0.05))
        fail_msg("f = %.4f after 4000 steps; without feedback it stays above 0.5, and it should be < 0.05", f);
}

/* ---- over ranks ---- */
struct both {
    int64_t count;
    struct feedback mine;
    float *x, *terms, *residuals, *sum, *sum_residual;               /* terms, residuals: (n ranks, count) */
};
static const int64_t COUNTS[N_COUNTS] = {1, 3, 8, 257, 1000};

static float *zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

static void both_init(struct both *b, int64_t count, bool feedback) {
    int n = comm_world_size();
    size_t bytes = (size_t)coded_wire_bytes(&SIGN, count, n);
    *b = (struct both){count, {malloc(bytes + 1), malloc(bytes + 1), NULL, NULL}, zeros(count), zeros(n * count), NULL,
                       zeros(count), NULL};
    memset(b->mine.sent, 0xff, bytes + 1);
    memset(b->mine.got, 0xff, bytes + 1);
    if (!feedback) return;
    b->residuals = zeros(n * count), b->sum_residual = zeros(count);
    b->mine.residual = zeros(count), b->mine.sum_residual = zeros(coded_part(count, n));
}
static void both_fini(struct both *b) {
    float *all[] = {b->x, b->terms, b->residuals, b->sum, b->sum_residual, b->mine.residual, b->mine.sum_residual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(b->mine.sent), free(b->mine.got);
}

static enum status step_of(struct both *b, int step) {
    for (int r = 0; r < comm_world_size(); r++)
        for (int64_t i = 0; i < b->count; i++) b->terms[r * b->count + i] = gradient_at(2, 50 * r + step, i);
    memcpy(b->x, b->terms + comm_world_rank() * b->count, (size_t)b->count * sizeof *b->x);
    codec_plain_all_reduce(&SIGN, comm_world_size(), b->count, b->terms, b->residuals, b->sum_residual, b->sum);
    return feedback_all_reduce(group_world(), b->x, b->count, &b->mine);
}

enum what { SUMS, TERMS_LEFT, SUMS_LEFT };
static bool same(const struct both *b, enum what what) {
    int n = comm_world_size(), me = comm_world_rank();
    int64_t own = coded_own_count(b->count, n, me), first = coded_first(b->count, n, me);
    if (what == SUMS) return codec_same_bits(b->x, b->sum, b->count);
    if (what == TERMS_LEFT) return codec_same_bits(b->mine.residual, b->residuals + me * b->count, b->count);
    return codec_same_bits(b->mine.sum_residual, b->sum_residual + first, own);
}

/* Three steps of every count. The ranks agree on statuses and results, so that all continue or none. */
static void hold(bool feedback, enum what what) {
    for (int s = 0; s < N_COUNTS; s++) {
        struct both b;
        enum status status = OK;
        bool right = true;
        both_init(&b, COUNTS[s], feedback);
        for (int step = 0; step < 3 && status == OK && right; step++) {
            status = fail_agree(group_world(), step_of(&b, step));
            right = agree_all(status != OK || same(&b, what));
        }
        both_fini(&b);
        assert_ok(status);
        if (!right) fail_msg("%d elements on %d ranks are not the oracle's", (int)COUNTS[s], comm_world_size());
    }
}

static void test_feedback_sums_are_the_oracles(void **state) { (void)state, hold(false, SUMS); }
static void test_feedback_sums_go_on_with_what_was_left(void **state) { (void)state, hold(true, SUMS); }
TEST(test_feedback_residuals_are_the_oracles) {
    hold(true, TERMS_LEFT);
    hold(true, SUMS_LEFT);
}

/* 2 (n-1) b bytes, in one all-to-all and one all-gather. */
TEST(test_feedback_sends_only_codes) {
    struct both b;
    int n = comm_world_size();
    both_init(&b, 1000, true);
    group_ledger_reset(group_world());
    enum status status = step_of(&b, 0);
    const struct ledger *ledger = group_ledger(group_world());
    double bytes = 0, calls = 0;
    for (int op = 0; op < N_COMM_OPS; op++) bytes += ledger->entry[op].bytes, calls += (double)ledger->entry[op].calls;
    int64_t wanted = 2 * (n - 1) * codec_bytes(&SIGN, coded_part(1000, n));
    bool two = agree_all(calls == 2);
    double most = agree_max(bytes), least = -agree_max(-bytes);
    both_fini(&b);
    assert_ok(status);
    if (!two) fail_msg("this rank makes %g collective calls; right are 2, on every rank", calls);
    assert_close(most, (double)wanted, 0);
    assert_close(least, (double)wanted, 0);
}

TESTS(unit_test(test_feedback_a_bit_for_a_number), unit_test(test_feedback_codes_are_the_sign_codecs),
      unit_test(test_feedback_encodes_what_is_owed), unit_test(test_feedback_keeps_what_the_receiver_lacks),
      unit_test(test_feedback_decodes_what_was_meant), unit_test(test_feedback_loses_nothing),
      unit_test(test_feedback_says_what_is_not_finite), unit_test(test_feedback_gets_where_signs_alone_do_not),
      unit_test(test_feedback_sums_are_the_oracles), unit_test(test_feedback_sums_go_on_with_what_was_left),
      unit_test(test_feedback_residuals_are_the_oracles), unit_test(test_feedback_sends_only_codes))
