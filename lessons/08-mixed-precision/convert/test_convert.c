/* ranks: 1  device: cpu */
/* Conversions compared with those of lib/device/dtype.h, whose tests compare with the compiler's. From 16 bits: all
 * 65536 values. To 16 bits: every number of the format, every tie between neighbors and the floats next to the tie, and
 * a stride through all floats. */
#include "lessons/08-mixed-precision/convert/convert.h"
#include "lib/device/dtype.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum status narrow(uint16_t *, const float *, int64_t);
typedef enum status widen(float *, const uint16_t *, int64_t);
static const struct format {
    const char *name;
    narrow *narrow;
    widen *widen;
    uint16_t (*narrow_right)(float);
    float (*widen_right)(uint16_t);
    uint16_t infinity;
} bf16 = {"bf16", convert_to_bf16, convert_from_bf16, bf16_from_float, bf16_to_float, 0x7f80},
  fp16 = {"fp16", convert_to_fp16, convert_from_fp16, fp16_from_float, fp16_to_float, 0x7c00};

static bool is_nan(const struct format *f, uint16_t x) { return (x & 0x7fff) > f->infinity; }

/* The bits of NaNs may differ. */
static void check_narrow(const struct format *f, const float *x, int64_t n) {
    uint16_t *mine = calloc((size_t)n, sizeof *mine);
    assert_non_null(mine);
    enum status status = f->narrow(mine, x, n);
    char text[120] = "";
    for (int64_t i = 0; i < n && status == OK && !text[0]; i++) {
        uint16_t right = f->narrow_right(x[i]);
        if (isnan(x[i]) ? !is_nan(f, mine[i]) : mine[i] != right)
            snprintf(text, sizeof text, "%s of %a (%.9g, bits %08x) is %04x, and should be %04x", f->name, (double)x[i],
                     (double)x[i], bits_of(x[i]), mine[i], right);
    }
    free(mine);
    assert_ok(status);
    if (text[0]) fail_msg("%s", text);
}

static void check_widen(const struct format *f) {
    static uint16_t x[65536];
    static float mine[65536];
    for (int i = 0; i < 65536; i++) x[i] = (uint16_t)i, mine[i] = -77;
    assert_ok(f->widen(mine, x, 65536));
    for (int i = 0; i < 65536; i++) {
        float right = f->widen_right(x[i]);
        if (isnan(right) ? !isnan(mine[i]) : bits_of(mine[i]) != bits_of(right))
            fail_msg("%04x, in %s, is %a (%.9g), and should be %a", i, f->name, (double)mine[i], (double)mine[i],
                     (double)right);
    }
}
TEST(test_convert_widens_all_65536_values) {
    check_widen(&bf16);
    check_widen(&fp16);
}

/* With both signs: all finite numbers, the tie between each number and the next, and for `beside` the floats next to
 * the tie. */
static void check_between(const struct format *f, bool numbers, bool tie, bool beside) {
    enum { MOST = 8 * 65536 };
    static float x[MOST];
    int64_t n = 0;
    for (uint32_t i = 0; i < f->infinity; i++) {
        float low = f->widen_right((uint16_t)i), high = i + 1u < f->infinity
                                                            ? f->widen_right((uint16_t)(i + 1))
                                                            : low + (low - f->widen_right((uint16_t)(i - 1)));
        float middle = isinf(high) ? float_of(bits_of(low) | 0x8000) : low + (high - low) / 2;
        for (int sign = -1; sign <= 1; sign += 2) {
            if (numbers) x[n++] = (float)sign * low;
            if (tie) x[n++] = (float)sign * middle;
            if (beside)
                x[n++] = (float)sign * nextafterf(middle, 0), x[n++] = (float)sign * nextafterf(middle, INFINITY);
        }
    }
    check_narrow(f, x, n);
}
TEST(test_convert_leaves_numbers_of_the_format_alone) {
    check_between(&bf16, true, false, false);
    check_between(&fp16, true, false, false);
}
TEST(test_convert_rounds_to_nearest_beside_every_tie) {
    check_between(&bf16, false, false, true);
    check_between(&fp16, false, false, true);
}
TEST(test_convert_rounds_every_tie_to_even) {
    check_between(&bf16, false, true, false);
    check_between(&fp16, false, true, false);
}

TEST(test_convert_keeps_nan_and_infinity) {
    float x[100];
    int n = 0;
    for (uint32_t bit = 1; bit < 0x800000; bit <<= 1)
        x[n++] = float_of(0x7f800000 | bit), x[n++] = float_of(0xff800000 | bit);
    x[n++] = float_of(0x7fffffff), x[n++] = INFINITY, x[n++] = -INFINITY;
    check_narrow(&bf16, x, n);
    check_narrow(&fp16, x, n);
}

/* 65519.996 is the last float that rounds to 65504. fp32's largest number rounds up in bf16. */
TEST(test_convert_overflows_to_infinity) {
    float x[] = {65504, 65519, nextafterf(65520, 0), 65520, 65536, 1e6f, 1e30f, float_of(0x7f7fffff),
                 float_of(0x7f7f7fff), float_of(0x7f7f8000)};
    for (int sign = 0; sign < 2; sign++) {
        for (int i = 0; i < 10; i++) x[i] = -x[i];
        check_narrow(&bf16, x, 10);
        check_narrow(&fp16, x, 10);
    }
}

/* Below 2^-14 fp16 has steps of 2^-24; a number of at most half a step becomes zero with its sign. */
TEST(test_convert_makes_subnormals_and_zeros) {
    enum { N = 2 * 4097 };
    static float x[N];
    for (int i = 0; i < 4097; i++) x[2 * i] = ldexpf((float)i, -26), x[2 * i + 1] = -x[2 * i];
    check_narrow(&fp16, x, N);
    float tiny[] = {0x1p-25f, nextafterf(0x1p-25f, 1), 0x1p-26f, 0x1p-100f, 0x1p-149f, 0x1p-134f, 0x1.8p-134f,
                    -0x1p-25f, -0x1p-149f, 0, -0.0f};
    check_narrow(&fp16, tiny, 11);
    check_narrow(&bf16, tiny, 11);
}

TEST(test_convert_agrees_all_over_fp32) {
    enum { BLOCK = 65536 };
    static float x[BLOCK];
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        int n = 0;
        for (; n < BLOCK && bits <= UINT32_MAX; bits += 4093) x[n++] = float_of((uint32_t)bits);
        check_narrow(&bf16, x, n);
        check_narrow(&fp16, x, n);
    }
}

TESTS(unit_test(test_convert_widens_all_65536_values), unit_test(test_convert_leaves_numbers_of_the_format_alone),
      unit_test(test_convert_rounds_to_nearest_beside_every_tie), unit_test(test_convert_rounds_every_tie_to_even),
      unit_test(test_convert_keeps_nan_and_infinity), unit_test(test_convert_overflows_to_infinity),
      unit_test(test_convert_makes_subnormals_and_zeros), unit_test(test_convert_agrees_all_over_fp32))
