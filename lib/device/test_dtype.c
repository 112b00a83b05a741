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

/* The compiler's half precision, as the reference. */
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

TEST(test_fp16_to_float_is_the_compilers_for_all_65536) {
    for (uint32_t x = 0; x < 65536; x++) {
        float mine = fp16_to_float((uint16_t)x), theirs = half_to_float((uint16_t)x);
        if (fp16_is_nan((uint16_t)x)) assert_true(isnan(mine) && isnan(theirs));
        else assert_int_equal(bits_of(mine), bits_of(theirs));
    }
}

TEST(test_fp16_round_trip_of_all_65536) {
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

/* Between each two neighboring halves: the tie and the floats next to it, and the quarter points. */
TEST(test_fp16_rounds_to_nearest_even_around_every_tie) {
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

/* An odd stride of about a million covers every exponent with many mantissas. */
TEST(test_fp16_from_float_is_the_compilers_over_all_magnitudes) {
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1021) check_fp16(float_of((uint32_t)bits));
}

TEST(test_bf16_round_trip_of_all_65536) {
    for (uint32_t x = 0; x < 65536; x++) {
        uint16_t back = bf16_from_float(bf16_to_float((uint16_t)x));
        if (bf16_is_nan((uint16_t)x)) assert_true(bf16_is_nan(back) && (back & 0x8000) == (x & 0x8000));
        else assert_int_equal(back, x);
    }
}

TEST(test_bf16_rounds_to_nearest_even_around_every_tie) {
    for (uint32_t x = 0; x < 0x7f80; x++) { /* 0x7f7f's upper neighbor is infinity */
        uint32_t tie = x << 16 | 0x8000;
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t s = sign << 31, s16 = sign << 15;
            assert_int_equal(bf16_from_float(float_of(s | tie)), s16 | (x + (x & 1)));
            assert_int_equal(bf16_from_float(float_of(s | (tie - 1))), s16 | x);
            assert_int_equal(bf16_from_float(float_of(s | (tie + 1))), s16 | (x + 1));
        }
    }
}

TEST(test_bf16_nan_with_only_low_bits_stays_nan) {
    assert_true(bf16_is_nan(bf16_from_float(float_of(0x7f800001))));
    assert_true(bf16_is_nan(bf16_from_float(float_of(0xff80ffff))));
    assert_int_equal(bf16_from_float(INFINITY), 0x7f80);
    assert_int_equal(bf16_from_float(FLT_MAX), 0x7f80);
}

/* 1 + half an ulp + a small rest: fp32 loses the rest, and a second rounding would round the tie down to even. */
TEST(test_fp64_to_16_bits_rounds_once) {
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

TEST(test_fp64_to_fp16_is_the_compilers) {
    for (uint16_t x = 0; x < 0x7c00; x++)
        for (int k = -2; k <= 2; k++) {
            double step = (double)half_to_float(1), low = (double)half_to_float(x);
            double value = low + step / 2 + k * 0x1p-50;
            uint16_t mine;
            dtype_set(&mine, FP16, 0, value);
            assert_int_equal(mine, half_bits((_Float16)value));
        }
}

TEST(test_fp64_extremes_convert) {
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

/* Every pair of types, with lengths around the block's. Small integers are exact in all types; in fp8 those up to 4. */
static double small_integer(int64_t i, enum dtype a, enum dtype b) {
    int64_t most = dtype_is_fp8(a) || dtype_is_fp8(b) ? 4 : 127;
    return (double)(i % (2 * most + 1) - most);
}

TEST(test_convert_every_pair_over_odd_lengths) {
    enum { MOST = 1025 };
    static const int64_t lengths[] = {0, 1, 511, 512, 513, MOST};
    char *from = malloc(MOST * 8), *to = malloc(MOST * 8 + 8);
    for (enum dtype a = FP64; a < FP4_E2M1; a++)
        for (enum dtype b = FP64; b < FP4_E2M1; b++)
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                int64_t n = lengths[l];
                if (a == INT32 || a == UINT8 || b == INT32 || b == UINT8) continue;
                for (int64_t i = 0; i < n; i++) dtype_set(from, a, i, small_integer(i, a, b));
                memset(to, 0x5a, MOST * 8 + 8);
                dtype_convert(to, b, from, a, n);
                for (int64_t i = 0; i < n; i++) assert_close(dtype_get(to, b, i), small_integer(i, a, b), 0);
                assert_int_equal((unsigned char)to[n * (int64_t)dtype_size(b)], 0x5a); /* nothing after the end */
            }
    free(from);
    free(to);
}

/* One number that is not finite is found at any index. The largest finite numbers count as finite. */
TEST(test_all_finite_finds_one_anywhere) {
    static const struct { enum dtype type; double largest, others[3]; } rows[] = {
        {FP64, DBL_MAX, {NAN, INFINITY, -INFINITY}}, {FP32, FLT_MAX, {NAN, INFINITY, -INFINITY}},
        {BF16, 0x1.fep127, {NAN, INFINITY, -INFINITY}}, {FP16, 65504, {NAN, INFINITY, -INFINITY}},
        {FP8_E4M3, 448, {NAN, NAN, NAN}}};
    enum { N = 70 };
    double room[N];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int64_t n = 0; n <= N; n += 1 + n / 8 * 7) {
            for (int64_t i = 0; i < n; i++) dtype_set(room, rows[r].type, i, (i % 2 ? 1 : -1) * rows[r].largest);
            assert_true(dtype_all_finite(room, rows[r].type, n));
            for (int64_t i = 0; i < n; i++) {
                dtype_set(room, rows[r].type, i, rows[r].others[i % 3]);
                assert_false(dtype_all_finite(room, rows[r].type, n));
                dtype_set(room, rows[r].type, i, 0);
            }
            assert_true(dtype_all_finite(room, rows[r].type, n));
        }
}

/* ---- fp8 ---- */
static const struct format { enum dtype dtype; int mantissa, bias, n_finite; double largest; } FORMATS[] = {
    {FP8_E4M3, 3, 7, 0x7f, FP8_E4M3_MAX}, {FP8_E5M2, 2, 15, 0x7c, FP8_E5M2_MAX}};

static double value_of_code(const struct format *f, int code) {
    uint8_t x = (uint8_t)code;
    return dtype_get(&x, f->dtype, 0);
}
static int code_of_value(const struct format *f, double x) {
    uint8_t code;
    dtype_set(&code, f->dtype, 0, x);
    return code;
}

/* The standard's table, section 3: 2^(e - bias) 1.m, or 2^(1 - bias) 0.m where e is 0. */
TEST(test_fp8_codes_are_the_standards_table) {
    for (const struct format *f = FORMATS; f < FORMATS + 2; f++) {
        for (int code = 0; code < f->n_finite; code++) {
            int exponent = code >> f->mantissa, steps = 1 << f->mantissa, m = code & (steps - 1);
            double value = exponent ? ldexp(1 + (double)m / steps, exponent - f->bias)
                                    : ldexp((double)m / steps, 1 - f->bias);
            assert_close(value_of_code(f, code), value, 0);
            assert_close(value_of_code(f, code | 0x80), -value, 0);
        }
        assert_close(value_of_code(f, f->n_finite - 1), f->largest, 0);
    }
    assert_true(isinf(value_of_code(&FORMATS[1], 0x7c)) && value_of_code(&FORMATS[1], 0xfc) < 0);
    for (int code = 0x7d; code <= 0x7f; code++)
        assert_true(isnan(value_of_code(&FORMATS[1], code)) && isnan(value_of_code(&FORMATS[1], code | 0x80)));
    assert_true(isnan(value_of_code(&FORMATS[0], 0x7f)) && isnan(value_of_code(&FORMATS[0], 0xff)));
}

TEST(test_fp8_finite_codes_come_back) {
    for (const struct format *f = FORMATS; f < FORMATS + 2; f++)
        for (int code = 0; code < 256; code++)
            if ((code & 0x7f) < f->n_finite) assert_int_equal(code_of_value(f, value_of_code(f, code)), code);
}

/* The nearest of all finite codes, by trying each; of two equally near codes, the even one. (Beyond twice the largest
 * number, x is limited to it, because distances from a very large x round to equal numbers.) */
static int nearest_code(const struct format *f, double x) {
    double a = fmin(fabs(x), 2 * f->largest);
    int best = 0;
    for (int code = 1; code < f->n_finite; code++) {
        double near = fabs(a - value_of_code(f, best)), here = fabs(a - value_of_code(f, code));
        if (here < near || (here == near && code % 2 == 0)) best = code;
    }
    return best | (signbit(x) ? 0x80 : 0);
}

TEST(test_fp8_of_all_bf16_is_the_nearest_code) {
    for (const struct format *f = FORMATS; f < FORMATS + 2; f++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            float x = bf16_to_float((uint16_t)bits);
            if (!isfinite(x)) continue;
            int expected = nearest_code(f, (double)x), found = code_of_value(f, (double)x);
            if (found != expected) fail_msg("%a becomes %02x, not %02x", (double)x, found, expected);
        }
}

/* fp64 numbers slightly off every tie are rounded only once. */
TEST(test_fp8_of_fp64_rounds_once) {
    for (const struct format *f = FORMATS; f < FORMATS + 2; f++)
        for (int code = 0; code + 1 < f->n_finite; code++) {
            double tie = (value_of_code(f, code) + value_of_code(f, code + 1)) / 2;
            double x[] = {nextafter(tie, 0), tie, nextafter(tie, INFINITY)};
            uint8_t converted[3], expected[] = {(uint8_t)code, (uint8_t)(code + code % 2), (uint8_t)(code + 1)};
            dtype_convert(converted, f->dtype, x, FP64, 3);
            assert_memory_equal(converted, expected, 3);
            for (int i = 0; i < 3; i++) assert_int_equal(code_of_value(f, -x[i]), expected[i] | 0x80);
        }
}

TEST(test_fp8_saturates_and_keeps_nan) {
    for (const struct format *f = FORMATS; f < FORMATS + 2; f++) {
        const double large[] = {f->largest * 1.07, f->largest * 2, 1e300, INFINITY};
        for (int i = 0; i < 4; i++) {
            assert_close(value_of_code(f, code_of_value(f, large[i])), f->largest, 0);
            assert_close(value_of_code(f, code_of_value(f, -large[i])), -f->largest, 0);
        }
        assert_int_equal(code_of_value(f, NAN), 0x7f);
        assert_int_equal(code_of_value(f, -NAN), 0x7f);
    }
}

TEST(test_get_and_set_of_integers) {
    int32_t words[3];
    uint8_t bytes[3];
    dtype_set(words, INT32, 2, -123456);
    dtype_set(bytes, UINT8, 1, 200);
    assert_int_equal(words[2], -123456);
    assert_close(dtype_get(words, INT32, 2), -123456, 0);
    assert_close(dtype_get(bytes, UINT8, 1), 200, 0);
}

TEST(test_sizes_and_names) {
    static const size_t sizes[N_DTYPES] = {8, 4, 2, 2, 4, 1, 1, 1, 1};
    static const char *const names[N_DTYPES] = {"fp64", "fp32", "bf16", "fp16", "int32", "uint8",
                                                "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"};
    for (int d = 0; d < N_DTYPES; d++) {
        assert_int_equal(dtype_size((enum dtype)d), sizes[d]);
        assert_string_equal(dtype_name((enum dtype)d), names[d]);
    }
}

TESTS(unit_test(test_all_finite_finds_one_anywhere),
      unit_test(test_fp16_to_float_is_the_compilers_for_all_65536), unit_test(test_fp16_round_trip_of_all_65536),
      unit_test(test_fp16_rounds_to_nearest_even_around_every_tie),
      unit_test(test_fp16_from_float_is_the_compilers_over_all_magnitudes),
      unit_test(test_bf16_round_trip_of_all_65536), unit_test(test_bf16_rounds_to_nearest_even_around_every_tie),
      unit_test(test_bf16_nan_with_only_low_bits_stays_nan), unit_test(test_fp64_to_16_bits_rounds_once),
      unit_test(test_fp64_to_fp16_is_the_compilers), unit_test(test_fp64_extremes_convert),
      unit_test(test_convert_every_pair_over_odd_lengths), unit_test(test_fp8_codes_are_the_standards_table),
      unit_test(test_fp8_finite_codes_come_back), unit_test(test_fp8_of_all_bf16_is_the_nearest_code),
      unit_test(test_fp8_of_fp64_rounds_once), unit_test(test_fp8_saturates_and_keeps_nan),
      unit_test(test_get_and_set_of_integers),
      unit_test(test_sizes_and_names))
