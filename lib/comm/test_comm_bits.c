/* ranks: 1 2 4 8  device: cpu */
/* A sum has the same bits on every rank and every time, and its error is at most that of a tree of roundings. */
#include "lib/base/rng.h"
#include "lib/comm/coded.h"
#include "lib/comm/comm_backend.h"
#include "lib/ops/test_codec.h"
#include "tests/test.h"
#include <stdlib.h>
#include <time.h>

enum { N_SIZES = 5, N_REPEATS = 6 };
static const int64_t sizes[N_SIZES] = {1, 7, 1000, 30011, 300007};   /* the last is large enough for exchanges of
                                                                      * several segments */
static const enum dtype types[] = {FP64, FP32, BF16, FP16};

/* Numbers of very different size, so that each order of additions rounds differently. */
static double term(int rank, int64_t i) {
    double x = rng_normal(1, (uint64_t)rank, (uint64_t)i);
    return ldexp(x, (int)((i * 5 + rank * 3) % 9) - 4);
}

static void fill(void *x, enum dtype dtype, int rank, int64_t n) {
    for (int64_t i = 0; i < n; i++) dtype_set(x, dtype, i, term(rank, i));
}

/* FNV-1a: equal buffers have equal hashes, and 52 bits fit a double exactly. */
static double hash(const void *x, size_t bytes) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)x)[i]) * 1099511628211u;
    return (double)(h >> 12);
}

/* Delay each rank differently, in an order that changes from one repetition to the next. */
static void come_late(int repeat) {
    struct timespec nap = {0, 700000L * ((comm_world_rank() * 5 + repeat * 3) % comm_world_size())};
    nanosleep(&nap, NULL);
}

static bool same_on_all_ranks(double x) {
    double largest = agree_max(x), smallest = -agree_max(-x); /* every rank must call both, and && would skip the
                                                               * second */
    return largest == smallest;
}

/* Repeat a sum of the same terms. @return whether all results are equal; *result: the hash of the first */
static bool repeats(bool scatter, enum dtype dtype, int64_t count, double *result) {
    size_t part_bytes = (size_t)count * dtype_size(dtype),
           bytes = part_bytes * (scatter ? (size_t)comm_world_size() : 1);
    char *terms = malloc(bytes), *x = malloc(bytes), *part = malloc(part_bytes);
    bool ok = terms && x && part;
    fill(terms, dtype, comm_world_rank(), (int64_t)(bytes / dtype_size(dtype)));
    for (int repeat = 0; repeat < N_REPEATS; repeat++) {
        memcpy(x, terms, bytes);
        come_late(repeat);
        if (scatter) ok &= comm_reduce_scatter(group_world(), x, part, count, dtype) == OK;
        else ok &= comm_all_reduce(group_world(), x, count, dtype, COMM_SUM) == OK;
        double h = hash(scatter ? part : x, part_bytes);
        if (repeat == 0) *result = h;
        ok &= h == *result;
    }
    free(terms);
    free(x);
    free(part);
    return ok;
}

TEST(test_sum_has_the_same_bits_everywhere_and_always) {
    bool ok = true;
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < N_SIZES; s++) {
            double result = 0;
            ok &= repeats(false, types[d], sizes[s], &result);
            ok &= same_on_all_ranks(result);
        }
    assert_true(agree_all(ok));
}

TEST(test_scattered_sum_has_the_same_bits_always) {
    bool ok = true;
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < N_SIZES; s++) {
            double result;
            ok &= repeats(true, types[d], (sizes[s] + comm_world_size() - 1) / comm_world_size(), &result);
        }
    assert_true(agree_all(ok));
}

/* Half an ulp of 1: the relative error of one rounding to nearest. */
static double unit_roundoff(enum dtype dtype) {
    switch (dtype) {
    case FP64: return 0x1p-53;
    case FP32: return 0x1p-24;
    case FP16: return 0x1p-11;
    default: return 0x1p-8; /* bf16 */
    }
}

/* A tree over n terms has at most n - 1 additions on a path. The error of each is at most u times a partial sum, which
 * is at most S = sum |x|. So |error| <= (n - 1) u S, times 1.1 for higher orders. The addition of a 16-bit pair in fp32
 * adds 2^-24, which the 1.1 covers; fp16 subnormals are multiples of 2^-24, so their sums are exact. fp64 is its own
 * reference, so its bound is doubled. */
TEST(test_sum_is_within_its_bound) {
    enum { COUNT = 3001 };
    static double x[COUNT];
    int n = comm_world_size();
    bool ok = true;
    for (int d = 0; d < 4; d++) {
        fill(x, types[d], comm_world_rank(), COUNT);
        ok &= comm_all_reduce(group_world(), x, COUNT, types[d], COMM_SUM) == OK;
        for (int64_t i = 0; i < COUNT; i++) {
            double exact = 0, magnitude = 0, rounded;
            for (int r = 0; r < n; r++) {
                dtype_set(&rounded, types[d], 0, term(r, i));
                exact += dtype_get(&rounded, types[d], 0);
                magnitude += fabs(dtype_get(&rounded, types[d], 0));
            }
            double bound = 1.1 * (n - 1) * unit_roundoff(types[d]) * magnitude * (types[d] == FP64 ? 2 : 1);
            ok &= fabs(dtype_get(x, types[d], i) - exact) <= bound;
        }
    }
    assert_true(agree_all(ok));
}

/* Coded sums equal, in every bit on every rank, those of one process that does the same to the gradients of all ranks,
 * in rank order and by the codecs' plain form. Tested over several steps with feedback, and with uneven parts. */
enum { STEPS = 3, N_COUNTS = 6 };
static const int64_t COUNTS[N_COUNTS] = {1, 3, 8, 257, 1000, 5003};

static float coded_term(int rank, int step, int64_t i) {
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
        for (int64_t i = 0; i < count; i++) b->terms[r * count + i] = coded_term(r, at, i);
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
            for (int i = 0; i < COUNT; i++) b.x[i] = 1 + 0.5f * coded_term(comm_world_rank(), 0, i) / 16;
            ok &= all_reduce(&b.coded, b.x);
            for (int i = 0; i < COUNT; i++) total[i] += b.x[i];
        }
        for (int r = 0; r < comm_world_size(); r++)
            for (int i = 0; i < COUNT; i++) exact[i] += TIMES * (1 + 0.5 * (double)coded_term(r, 0, i) / 16);
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
        for (int i = 0; i < COUNT; i++) b.x[i] = coded_term(comm_world_rank(), 0, i);
        if (comm_world_rank() == comm_world_size() - 1) b.x[17] = NAN;
        ok &= all_reduce(&b.coded, b.x);
        for (int i = 0; i < COUNT; i++) found |= isnan(b.x[i]);
        ok &= found;
        both_fini(&b);
    }
    ok = agree_all(ok);
    assert_true(ok);
}

TESTS(unit_test(test_sum_has_the_same_bits_everywhere_and_always),
      unit_test(test_scattered_sum_has_the_same_bits_always), unit_test(test_sum_is_within_its_bound),
      unit_test(test_coded_sum_is_one_process_in_every_bit), unit_test(test_coded_sum_sends_what_its_formula_says),
      unit_test(test_coded_feedback_loses_nothing), unit_test(test_coded_nan_reaches_every_rank))
