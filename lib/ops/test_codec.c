/* ranks: 1  device: cpu
 *
 * Codecs: decoded bits against a second, plain form; sizes against hand-written numbers; errors against the formats'
 * bounds. */
#include "lib/ops/test_codec.h"

#include "lib/base/rng.h"
#include "tests/test.h"

enum { MOST = 2000 };
static const int64_t SIZES[] = {0, 1, 2, 7, 8, 9, 100, 255, 256, 257, 511, 512, 513, 1000, 1999};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };
static const double PERCENTS[] = {0.1, 1, 12.5, 50, 100};

/* Eleven fillings: numbers of one size, of very different sizes, equal ones, zeros of both signs, subnormals, ... */
enum { N_FILLS = 11, FILL_NAN = 8, FILL_INFINITE = 9 };
static float filling(int fill, int64_t i, int64_t n) {
    float x = (float)rng_normal(7, (uint64_t)fill, (uint64_t)i);
    switch (fill) {
    case 1: return ldexpf(x, (int)(i * 7 % 61) - 30);
    case 2: return i % 3 ? 0.5f : -0.5f;
    case 3: return i % 2 ? 0.f : -0.f;
    case 4: return x * 0x1p-140f;
    case 5: return x * 0x1p125f / 8;
    case 6: return i % 10 ? 0 : x;
    case 7: return (float)(i % 5) - 2;
    case FILL_NAN: return i == n / 2 ? NAN : x;
    case FILL_INFINITE: return i == n - 1 ? -INFINITY : x;
    case 10: return x * 20000;                                       /* some are beyond fp16 */
    default: return x;
    }
}

static void fill_with(float *x, int fill, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = filling(fill, i, n);
}

static void each_codec(void (*visit)(const struct codec *)) {
    for (int k = 0; k < N_CODECS; k++)
        for (int p = 0; p < (k == CODEC_TOPK ? 5 : 1); p++)
            visit(&(struct codec){(enum codec_kind)k, k == CODEC_TOPK ? PERCENTS[p] : 0});
}

/* Encode x twice, over different bytes with a canary on either side, to check that all codec_bytes and no others are
 * written. Decode to `seen`. */
static float *decoded(const struct codec *c, const float *x, int64_t n, float *seen) {
    int64_t bytes = codec_bytes(c, n);
    unsigned char *code = malloc((size_t)bytes + 2), *again = malloc((size_t)bytes + 2);
    memset(code, 0x5a, (size_t)bytes + 2);
    memset(again, 0xa5, (size_t)bytes + 2);
    codec_encode(c, x, n, code + 1);
    codec_encode(c, x, n, again + 1);
    assert_memory_equal(code + 1, again + 1, (size_t)bytes);
    assert_true(code[0] == 0x5a && code[bytes + 1] == 0x5a && again[0] == 0xa5 && again[bytes + 1] == 0xa5);
    for (int64_t i = 0; i < n; i++) seen[i] = 1e30f;
    codec_decode(c, code + 1, n, seen, CODEC_SET);
    free(code);
    free(again);
    return seen;
}

static void check_bits(const struct codec *c) {
    float x[MOST], seen[MOST], plain[MOST];
    for (int fill = 0; fill < N_FILLS; fill++)
        for (int s = 0; s < N_SIZES; s++) {
            fill_with(x, fill, SIZES[s]);
            codec_plain(c, x, SIZES[s], plain);
            if (codec_same_bits(decoded(c, x, SIZES[s], seen), plain, SIZES[s])) continue;
            print_error("%s %g%%, filling %d, %lld floats\n", codec_name(c->kind), c->topk_percent, fill,
                        (long long)SIZES[s]);
            fail();
        }
}

TEST(test_codec_has_the_plain_forms_bits) {
    each_codec(check_bits);
}

TEST(test_codec_bytes_are_its_formula) {
    static const struct { struct codec codec; int64_t n, bytes; } CASES[] = {
        {{CODEC_NONE, 0}, 1000, 4000}, {{CODEC_BF16, 0}, 1001, 2002}, {{CODEC_FP16, 0}, 1001, 2002},
        {{CODEC_INT8, 0}, 0, 0}, {{CODEC_INT8, 0}, 1, 5}, {{CODEC_INT8, 0}, 256, 260}, {{CODEC_INT8, 0}, 257, 265},
        {{CODEC_SIGN, 0}, 0, 4}, {{CODEC_SIGN, 0}, 8, 5}, {{CODEC_SIGN, 0}, 9, 6}, {{CODEC_TOPK, 1}, 0, 0},
        {{CODEC_TOPK, 1}, 1, 8}, {{CODEC_TOPK, 1}, 100, 8}, {{CODEC_TOPK, 1}, 101, 16}, {{CODEC_TOPK, 12.5}, 80, 80},
        {{CODEC_TOPK, 0.1}, 1000, 8}, {{CODEC_TOPK, 100}, 7, 56}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_int_equal(codec_bytes(&CASES[i].codec, CASES[i].n), CASES[i].bytes);
}

/* The bound is half a step of the format: relative 2^-8 for bf16, 2^-11 for fp16, whose step below 2^-14 is 2^-24. For
 * int8 it is s/2, and three roundings more: of s, of the quotient and of the product. */
TEST(test_codec_errors_are_within_the_format) {
    float x[MOST], seen[MOST];
    for (int fill = 0; fill < 3; fill++) {
        fill_with(x, fill, MOST);
        decoded(&(struct codec){CODEC_BF16, 0}, x, MOST, seen);
        for (int i = 0; i < MOST; i++) assert_close(seen[i], x[i], 0x1p-8 * fabs(x[i]));
        decoded(&(struct codec){CODEC_INT8, 0}, x, MOST, seen);
        for (int first = 0; first < MOST; first += CODEC_BLOCK) {
            double most = 0;
            for (int i = first; i < first + CODEC_BLOCK && i < MOST; i++) most = fmax(most, fabs(x[i]));
            for (int i = first; i < first + CODEC_BLOCK && i < MOST; i++)
                assert_close(seen[i], x[i], most / 254 + 3 * 0x1p-24 * most);
        }
    }
    fill_with(x, 0, MOST);
    decoded(&(struct codec){CODEC_FP16, 0}, x, MOST, seen);
    for (int i = 0; i < MOST; i++) assert_close(seen[i], x[i], fmax(0x1p-11 * fabs(x[i]), 0x1p-25));
}

/* With s = mean|x| the squared error is sum x^2 - (sum |x|)^2 / n. No other s has a smaller error, and s = 0 has sum
 * x^2. */
TEST(test_codec_sign_has_the_best_scale) {
    float x[MOST], seen[MOST];
    double squares = 0, sum = 0, error = 0;
    fill_with(x, 0, MOST);
    decoded(&(struct codec){CODEC_SIGN, 0}, x, MOST, seen);
    for (int i = 0; i < MOST; i++) {
        squares += (double)x[i] * x[i];
        sum += fabs(x[i]);
        error += ((double)seen[i] - x[i]) * ((double)seen[i] - x[i]);
    }
    assert_close(error, squares - sum * sum / MOST, 1e-5 * squares);
    assert_true(error < 0.5 * squares);
}

TEST(test_codec_topk_breaks_ties_by_index) {
    const float x[8] = {1, -2, 2, -2, 0.5f, 2, 1, -2}, kept[8] = {0, -2, 2, -2, 0, 0, 0, 0};
    float seen[8];
    assert_memory_equal(decoded(&(struct codec){CODEC_TOPK, 37.5}, x, 8, seen), kept, sizeof kept);
}

static void check_not_finite(const struct codec *c) {
    float x[MOST], seen[MOST];
    for (int fill = FILL_NAN; fill <= FILL_INFINITE; fill++)
        for (int s = 1; s < N_SIZES; s++) {
            bool found = false;
            fill_with(x, fill, SIZES[s]);
            decoded(c, x, SIZES[s], seen);
            for (int64_t i = 0; i < SIZES[s]; i++) found |= !isfinite(seen[i]);
            assert_true(found);
        }
}

TEST(test_codec_never_hides_what_is_not_finite) {
    each_codec(check_not_finite);
}

/* Adding and subtracting a code give the sum and the difference with the decoded floats, rounded once. */
static void check_into(const struct codec *c) {
    float x[MOST], seen[MOST], y[MOST], sum[MOST], rest[MOST];
    unsigned char code[4 * MOST * 2];
    fill_with(x, 1, 1000);
    fill_with(y, 0, 1000);
    codec_encode(c, x, 1000, code);
    codec_decode(c, code, 1000, seen, CODEC_SET);
    for (int i = 0; i < 1000; i++) sum[i] = y[i] + seen[i], rest[i] = y[i] - seen[i];
    codec_decode(c, code, 1000, y, CODEC_ADD);
    assert_memory_equal(y, sum, 1000 * sizeof *y);
    fill_with(y, 0, 1000);
    codec_decode(c, code, 1000, y, CODEC_SUBTRACT);
    assert_memory_equal(y, rest, 1000 * sizeof *y);
}

TEST(test_codec_adds_and_subtracts_what_it_sets) {
    each_codec(check_into);
}

/* The code of another dtype has the bytes of the code of its floats, and decodes to the same floats, rounded to the
 * dtype. */
TEST(test_codec_of_other_types_goes_through_floats) {
    static const enum dtype dtypes[] = {FP32, FP64, BF16, FP16};
    static float x[MOST], seen[MOST];
    static double wide[MOST], got[MOST], expected[MOST];
    static unsigned char code[4 * MOST], other[4 * MOST];
    for (enum codec_kind k = CODEC_NONE; k <= CODEC_INT8; k++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int s = 0; s < N_SIZES; s++) {
                const struct codec c = {.kind = k};
                int64_t n = SIZES[s];
                for (int64_t i = 0; i < n; i++) dtype_set(wide, dtypes[d], i, rng_normal(9, (uint64_t)n, (uint64_t)i));
                dtype_convert(x, FP32, wide, dtypes[d], n);
                codec_encode(&c, x, n, code);
                codec_encode_as(&c, wide, dtypes[d], n, other);
                assert_memory_equal(code, other, (size_t)codec_bytes(&c, n));
                codec_plain(&c, x, n, seen);
                dtype_convert(expected, dtypes[d], seen, FP32, n);
                codec_decode_as(&c, code, n, got, dtypes[d]);
                assert_memory_equal(got, expected, (size_t)n * dtype_size(dtypes[d]));
            }
}

TESTS(unit_test(test_codec_bytes_are_its_formula), unit_test(test_codec_has_the_plain_forms_bits),
      unit_test(test_codec_errors_are_within_the_format), unit_test(test_codec_sign_has_the_best_scale),
      unit_test(test_codec_topk_breaks_ties_by_index), unit_test(test_codec_never_hides_what_is_not_finite),
      unit_test(test_codec_adds_and_subtracts_what_it_sets),
      unit_test(test_codec_of_other_types_goes_through_floats))
