/* ranks: 1
 *
 * Floating-point formats, computed from a sign, e bits of exponent and m bits of mantissa: the numbers of a format,
 * their spacing, rounding, and weights that updates are too small to move. The exit code is 0 if all claims hold. */
#include "lib/device/dtype.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static int wrong;
static void claim(const char *text, bool holds) {
    printf("  %s %s\n", holds ? "yes:" : "NO: ", text);
    wrong += !holds;
}

static double rounded(enum dtype d, double x) {
    double bits;                                             /* room for any element */
    dtype_set(&bits, d, 0, x);
    return dtype_get(&bits, d, 0);
}

/* ---- 1. the formats, from e and m alone ---- */
struct format { enum dtype dtype; int e, m; };
static const struct format formats[] = {{FP32, 8, 23}, {BF16, 8, 7}, {FP16, 5, 10}};
enum { N = sizeof formats / sizeof *formats };

static int bias(struct format f) { return (1 << (f.e - 1)) - 1; }
static double largest(struct format f) { return ldexp(2 - ldexp(1, -f.m), bias(f)); }
static double smallest_normal(struct format f) { return ldexp(1, 1 - bias(f)); }
static double smallest(struct format f) { return ldexp(smallest_normal(f), -f.m); }
/* The distance from x to the next number: 2^(exponent of x) has 2^m numbers up to the next power of two. */
static double spacing(struct format f, double x) {
    return ldexp(1, (x < smallest_normal(f) ? 1 - bias(f) : ilogb(x)) - f.m);
}

static void show_formats(void) {
    printf("1. formats\n       sign exp mantissa   largest    smallest normal   smallest   spacing at 1   at 1000   at "
           "0.001\n");
    for (int i = 0; i < N; i++) {
        struct format f = formats[i];
        printf("  %s   1  %2d       %2d   %.3e        %.3e  %.3e      %.2e  %.2e   %.2e\n", dtype_name(f.dtype), f.e,
               f.m, largest(f), smallest_normal(f), smallest(f), spacing(f, 1), spacing(f, 1000), spacing(f, 0.001));
        claim("the largest and the smallest are numbers of the format",
              rounded(f.dtype, largest(f)) == largest(f) && rounded(f.dtype, smallest(f)) == smallest(f));
        claim("half a spacing more than the largest is infinite, half of the smallest is zero",
              isinf(rounded(f.dtype, largest(f) + spacing(f, largest(f)) / 2)) &&
                  rounded(f.dtype, smallest(f) / 2) == 0);
        claim("between 1 and 1 + spacing there is nothing",
              rounded(f.dtype, 1 + 0.49 * spacing(f, 1)) == 1 && rounded(f.dtype, 1 + 0.51 * spacing(f, 1)) > 1);
    }
}

/* ---- 2. rounding: to nearest, ties to even ---- */
static void show_rounding(void) {
    static const double x[] = {0.1, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-11, 1 + 3 * 0x1p-11, 65504, 65519, 65520, 1e-5,
                               3e-8, 2.9e-8, 1e-40};
    printf("2. rounding\n  %-22s  %-22s  %s\n", "x", "bf16", "fp16");
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        uint16_t b, h;
        dtype_set(&b, BF16, 0, x[i]);
        dtype_set(&h, FP16, 0, x[i]);
        printf("  %-22.10g  %-12.8g (%04x)   %-12.8g (%04x)\n", x[i], rounded(BF16, x[i]), b, rounded(FP16, x[i]), h);
    }
}

/* ---- 3. a weight that stands still ---- */
/* w = w + d, a thousand times, rounded each time to the format. */
static double add_up(enum dtype d, double w, double step) {
    for (int i = 0; i < 1000; i++) w = rounded(d, w + step);
    return w;
}
static void show_updates(void) {
    static const double steps[] = {1e-2, 3e-3, 1e-3, 3e-4, 1e-4};
    printf("3. 1 + 1000 steps of\n  %-10s %-10s %-10s %-10s %s\n", "", "exact", "fp32", "bf16", "fp16");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        printf("  %-10g %-10.4f %-10.4f %-10.4f %.4f\n", steps[i], 1 + 1000 * steps[i], add_up(FP32, 1, steps[i]),
               add_up(BF16, 1, steps[i]), add_up(FP16, 1, steps[i]));
    claim("a step below 2^-8, half the spacing at 1, never moves a bf16 weight", add_up(BF16, 1, 0.99 * 0x1p-8) == 1);
    claim("nor one below 2^-11 an fp16 weight", add_up(FP16, 1, 0.99 * 0x1p-11) == 1);
    claim("fp32 follows", fabs(add_up(FP32, 1, 1e-4) - 1.1) < 1000 * 0x1p-24);
}

int main(void) {
    show_formats();
    show_rounding();
    show_updates();
    return wrong != 0;
}
