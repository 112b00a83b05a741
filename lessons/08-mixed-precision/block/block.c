/* A block of numbers as codes and a scale, for you to write. lib/ops/block.h has the formats and the contracts; lesson
 * 08 ("The scale of a block") explains them. A struct block_format says how a block is stored: `element` is the dtype
 * of its codes, `scale` the rule of its scale. In this order, write
 *
 *   1. block_scale_code     from the largest magnitude of a block to its scale: three rules
 *   2. block_cast           from numbers to codes, to nearest: draws are NULL
 *   3. block_cast           with draws: the code below, or the next one
 *
 * First compute one block of MXFP4 on paper, c = 6, power of two in c = 4: 0.1, -0.9, 3, 7.1. (up: scale 2, codes of
 * 0, -0.5, 1.5, 4. down: scale 1, codes of 0, -1, 3, 6: 7.1 saturates.)
 *
 * What you need is in lib/device/dtype.h: e4m3_from_float, e5m2_from_float and e2m1_from_float round to nearest, ties
 * to even, and saturate. They take a float. dtype_float_to_odd makes a float of a double so that it is not rounded
 * twice.
 *
 *   make grade LESSON=08 FILE=lessons/08-mixed-precision/block/block.c */
#include "lib/ops/block.h"

#include <float.h>
#include <math.h>

enum { E8M0_BIAS = 127, E8M0_LAST = 254, E8M0_NAN = 255, E4M3_NAN = 0x7f };

/* ---- given: numbers of codes and of scales ---- */
double block_element_most(enum dtype element) {
    return element == FP8_E4M3 ? FP8_E4M3_MAX : element == FP8_E5M2 ? FP8_E5M2_MAX : FP4_E2M1_MAX;
}

double block_element_value(enum dtype element, uint8_t code) {
    return (double)(element == FP8_E4M3 ? e4m3_to_float(code)
                    : element == FP8_E5M2 ? e5m2_to_float(code) : e2m1_to_float(code));
}

double block_scale_value(const struct block_format *f, uint8_t scale) {
    if (f->scale == BLOCK_SCALE_E4M3) return (double)e4m3_to_float(scale);
    return scale == E8M0_NAN ? (double)NAN : ldexp(1, scale - E8M0_BIAS);
}

/* ---- scales ---- */
/* Step 1. f->scale says which of the three rules (block.h). `most` may be 0, infinite or NaN. frexp(most, &p) gives the
 * a of most = a 2^p, 1/2 <= a < 1. */
uint8_t block_scale_code(const struct block_format *f, double most, double tensor) {
    (void)f, (void)most, (void)tensor;
    return 1;                            /* E_TODO */
}

/* ---- elements ---- */
/* Steps 2 and 3. Find the largest magnitude, write *scale, and round each number times the factor 1 / scale. With
 * BLOCK_SCALE_E4M3 the factor is 1 / (scale x (1 / tensor)), at most FLT_MAX, and it and the product are floats. The
 * sign of a code is 8 in E2M1 and 0x80 in the others. Codes of one sign are in the order of their numbers. */
void block_cast(const struct block_format *f, double tensor, int n, const double *x, const uint32_t *draws,
                uint8_t *code, uint8_t *scale) {
    (void)f, (void)tensor, (void)x, (void)draws;
    *scale = 1;                          /* E_TODO */
    memset(code, 0, (size_t)n);
}

/* ---- given: numbers of a block, and bytes ---- */
void block_values(const struct block_format *f, int n, const uint8_t *code, uint8_t scale, double *value) {
    double s = block_scale_value(f, scale);
    for (int i = 0; i < n; i++) value[i] = s * block_element_value(f->element, code[i]);
}

void block_pack(enum dtype element, int n, const uint8_t *code, uint8_t *bytes) {
    if (element != FP4_E2M1) memcpy(bytes, code, (size_t)n);
    else for (int i = 0; i < n; i += 2) bytes[i / 2] = (uint8_t)(code[i] | code[i + 1] << 4);
}

void block_unpack(enum dtype element, int n, const uint8_t *bytes, uint8_t *code) {
    if (element != FP4_E2M1) memcpy(code, bytes, (size_t)n);
    else for (int i = 0; i < n; i++) code[i] = (uint8_t)(bytes[i / 2] >> 4 * (i % 2) & 15);
}
