/* ranks: 1  device: cpu */
#include "lib/device/dtype.h"
#include "tests/test.h"

#include <float.h>
#include <stdlib.h>

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The compiler's half: the oracle. */
static float half_to_float(uint16_t x) {
    _Float16 h;
    memcpy(&h, &x, sizeof h);
    return (float)h;
}
static uint16_t half_bits(_Float16 h) {
    uint16_t x;
    memcpy(&x, &h, sizeof x);
    return x;
}

static bool fp16_is_nan(uint16_t x) { return (x & 0x7fff) > 0x7c00; }
static bool bf16_is_nan(uint16_t x) { return (x & 0x7fff) > 0x7f80; }

static void test_fp16_to_float_is_the_compilers_for_all_65536(void **state) {
    (void)state;
    for (uint32_t x = 0; x < 65536; x++) {
        float mine = fp16_to_float((uint16_t)x), theirs = half_to_float((uint16_t)x);
        if (fp16_is_nan((uint16_t)x)) assert_true(isnan(mine) && isnan(theirs));
        else assert_int_equal(bits_of(mine), bits_of(theirs));
    }
}

static void test_fp16_round_trip_of_all_65536(void **state) {
    (void)state;
    for (uint32_t x = 0; x < 65536; x++) {
        uint16_t back = fp16_from_float(fp16_to_float((uint16_t)x));
        if (fp16_is_nan((uint16_t)x)) assert_true(fp16_is_nan(back) && (back & 0x8000) == (x & 0x8000));
        else assert_int_equal(back, x);
    }
}

static void check_fp16(float x) {
    uint16_t mine = fp16_from_float(x), theirs = half_bits((_Float16)x);
    if (isnan(x)) assert_true(fp16_is_nan(mine) && fp16_is_nan(theirs));
    else if (mine != theirs) fail_msg("%a becomes %04x, not %04x", (double)x, mine, theirs);
}

/* Between each two neighbouring halves: the tie and the floats next to it, and the quarter points. */
static void test_fp16_rounds_to_nearest_even_around_every_tie(void **state) {
    (void)state;
    for (uint16_t x = 0; x < 0x7c00; x++) {
        float low = fp16_to_float(x), high = x == 0x7bff ? 65536 : fp16_to_float((uint16_t)(x + 1));
        float tie = (low + high) / 2; /* exact: one more bit than a half has */
        uint16_t even = (uint16_t)(x + (x & 1));
        assert_int_equal(fp16_from_float(tie), even);
        assert_int_equal(fp16_from_float(nextafterf(tie, 0)), x);
        assert_int_equal(fp16_from_float(nextafterf(tie, INFINITY)), x + 1);
        float points[] = {tie, nextafterf(tie, 0), nextafterf(tie, INFINITY), (low + tie) / 2, (tie + high) / 2};
        for (int i = 0; i < 5; i++) check_fp16(points[i]), check_fp16(-points[i]);
    }
}

/* A stride that is odd and about a million bits wide meets every exponent with many mantissas. */
static void test_fp16_from_float_is_the_compilers_over_all_magnitudes(void **state) {
    (void)state;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1021) check_fp16(float_of((uint32_t)bits));
}

static void test_bf16_round_trip_of_all_65536(void **state) {
    (void)state;
    for (uint32_t x = 0; x < 65536; x++) {
        uint16_t back = bf16_from_float(bf16_to_float((uint16_t)x));
        if (bf16_is_nan((uint16_t)x)) assert_true(bf16_is_nan(back) && (back & 0x8000) == (x & 0x8000));
        else assert_int_equal(back, x);
    }
}

static void test_bf16_rounds_to_nearest_even_around_every_tie(void **state) {
    (void)state;
    for (uint32_t x = 0; x < 0x7f80; x++) { /* 0x7f7f's upper neighbour is infinity */
        uint32_t tie = x << 16 | 0x8000;
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t s = sign << 31, s16 = sign << 15;
            assert_int_equal(bf16_from_float(float_of(s | tie)), s16 | (x + (x & 1)));
            assert_int_equal(bf16_from_float(float_of(s | (tie - 1))), s16 | x);
            assert_int_equal(bf16_from_float(float_of(s | (tie + 1))), s16 | (x + 1));
        }
    }
}

static void test_bf16_nan_with_only_low_bits_stays_nan(void **state) {
    (void)state;
    assert_true(bf16_is_nan(bf16_from_float(float_of(0x7f800001))));
    assert_true(bf16_is_nan(bf16_from_float(float_of(0xff80ffff))));
    assert_int_equal(bf16_from_float(INFINITY), 0x7f80);
    assert_int_equal(bf16_from_float(FLT_MAX), 0x7f80);
}

/* 1 + half an ulp + a trifle: the trifle is lost in fp32, and rounding the float again would go down to even. */
static void test_fp64_to_16_bits_rounds_once(void **state) {
    (void)state;
    static const struct { enum dtype dtype; double ulp; uint16_t one; } types[] = {
        {BF16, 0x1p-7, 0x3f80}, {FP16, 0x1p-10, 0x3c00}};
    for (int t = 0; t < 2; t++) {
        double trifle = 0x1p-40, half = types[t].ulp / 2;
        double x[] = {1 + half + trifle, 1 + half, 1 + 3 * half - trifle, -(1 + half + trifle), 1 - trifle};
        uint16_t expected[] = {(uint16_t)(types[t].one + 1), types[t].one, (uint16_t)(types[t].one + 1),
                               (uint16_t)(types[t].one + 1 + 0x8000), types[t].one};
        uint16_t converted[5], set[5];
        dtype_convert(converted, types[t].dtype, x, FP64, 5);
        for (int i = 0; i < 5; i++) dtype_set(set, types[t].dtype, i, x[i]);
        assert_memory_equal(converted, expected, sizeof expected);
        assert_memory_equal(set, expected, sizeof expected);
    }
}

static void test_fp64_to_fp16_is_the_compilers(void **state) {
    (void)state;
    for (uint16_t x = 0; x < 0x7c00; x++)
        for (int k = -2; k <= 2; k++) {
            double step = (double)half_to_float(1), low = (double)half_to_float(x);
            double value = low + step / 2 + k * 0x1p-50;
            uint16_t mine;
            dtype_set(&mine, FP16, 0, value);
            assert_int_equal(mine, half_bits((_Float16)value));
        }
}

static void test_fp64_extremes_convert(void **state) {
    (void)state;
    double x[] = {1e300, -1e300, 1e-300, -1e-300, 0.0, -0.0, INFINITY, NAN};
    uint16_t bf16[8], fp16[8];
    float fp32[8];
    dtype_convert(bf16, BF16, x, FP64, 8);
    dtype_convert(fp16, FP16, x, FP64, 8);
    dtype_convert(fp32, FP32, x, FP64, 8);
    uint16_t bf16_expected[] = {0x7f80, 0xff80, 0, 0x8000, 0, 0x8000, 0x7f80};
    uint16_t fp16_expected[] = {0x7c00, 0xfc00, 0, 0x8000, 0, 0x8000, 0x7c00};
    assert_memory_equal(bf16, bf16_expected, sizeof bf16_expected);
    assert_memory_equal(fp16, fp16_expected, sizeof fp16_expected);
    assert_true(bf16_is_nan(bf16[7]) && fp16_is_nan(fp16[7]) && isnan(fp32[7]));
    assert_true(isinf(fp32[0]) && fp32[2] == 0 && !signbit(fp32[4]) && signbit(fp32[5]));
}

/* Every pair, over lengths around the block: small integers are exact in all types. */
static void test_convert_every_pair_over_odd_lengths(void **state) {
    (void)state;
    enum { MOST = 1025 };
    static const int64_t lengths[] = {0, 1, 511, 512, 513, MOST};
    char *from = malloc(MOST * 8), *to = malloc(MOST * 8 + 8);
    for (enum dtype a = FP64; a <= FP16; a++)
        for (enum dtype b = FP64; b <= FP16; b++)
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                int64_t n = lengths[l];
                for (int64_t i = 0; i < n; i++) dtype_set(from, a, i, (double)(i % 255) - 127);
                memset(to, 0x5a, MOST * 8 + 8);
                dtype_convert(to, b, from, a, n);
                for (int64_t i = 0; i < n; i++) assert_close(dtype_get(to, b, i), (double)(i % 255) - 127, 0);
                assert_int_equal((unsigned char)to[n * (int64_t)dtype_size(b)], 0x5a); /* nothing after the end */
            }
    free(from);
    free(to);
}

static void test_get_and_set_of_integers(void **state) {
    (void)state;
    int32_t words[3];
    uint8_t bytes[3];
    dtype_set(words, INT32, 2, -123456);
    dtype_set(bytes, UINT8, 1, 200);
    assert_int_equal(words[2], -123456);
    assert_close(dtype_get(words, INT32, 2), -123456, 0);
    assert_close(dtype_get(bytes, UINT8, 1), 200, 0);
}

static void test_sizes_and_names(void **state) {
    (void)state;
    static const size_t sizes[N_DTYPES] = {8, 4, 2, 2, 4, 1};
    static const char *const names[N_DTYPES] = {"fp64", "fp32", "bf16", "fp16", "int32", "uint8"};
    for (int d = 0; d < N_DTYPES; d++) {
        assert_int_equal(dtype_size((enum dtype)d), sizes[d]);
        assert_string_equal(dtype_name((enum dtype)d), names[d]);
    }
}

TESTS(unit_test(test_fp16_to_float_is_the_compilers_for_all_65536), unit_test(test_fp16_round_trip_of_all_65536),
      unit_test(test_fp16_rounds_to_nearest_even_around_every_tie),
      unit_test(test_fp16_from_float_is_the_compilers_over_all_magnitudes),
      unit_test(test_bf16_round_trip_of_all_65536), unit_test(test_bf16_rounds_to_nearest_even_around_every_tie),
      unit_test(test_bf16_nan_with_only_low_bits_stays_nan), unit_test(test_fp64_to_16_bits_rounds_once),
      unit_test(test_fp64_to_fp16_is_the_compilers), unit_test(test_fp64_extremes_convert),
      unit_test(test_convert_every_pair_over_odd_lengths), unit_test(test_get_and_set_of_integers),
      unit_test(test_sizes_and_names))
