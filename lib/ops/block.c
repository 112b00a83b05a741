#include "lib/ops/block.h"

#include <float.h>
#include <math.h>

enum { E8M0_BIAS = 127, E8M0_LAST = 254, E8M0_NAN = 255, E4M3_NAN = 0x7f };

double block_element_most(enum dtype element) {
    return element == FP8_E4M3 ? FP8_E4M3_MAX : element == FP8_E5M2 ? FP8_E5M2_MAX : FP4_E2M1_MAX;
}

double block_element_value(enum dtype element, uint8_t code) {
    return (double)(element == FP8_E4M3 ? e4m3_to_float(code)
                    : element == FP8_E5M2 ? e5m2_to_float(code) : e2m1_to_float(code));
}

/* ---- scales ---- */
double block_scale_value(const struct block_format *f, uint8_t scale) {
    if (f->scale == BLOCK_SCALE_E4M3) return (double)e4m3_to_float(scale);
    return scale == E8M0_NAN ? (double)NAN : ldexp(1, scale - E8M0_BIAS);
}

/* most = a 2^p and c = b 2^q, with a and b in [1/2, 1). Down: 2^(p-1) is the power of two in most, 2^(q-1) that in c.
 * Up: most <= c 2^n if n = p - q and a <= b, else n must be one more. */
static uint8_t e8m0_code(const struct block_format *f, double most) {
    int p, q;
    double a = frexp(most, &p), b = frexp(block_element_most(f->element), &q);
    int code = p - q + (f->scale == BLOCK_SCALE_UP && a > b) + E8M0_BIAS;
    if (most == 0 || code < 0) return 0;
    return (uint8_t)(code < E8M0_LAST ? code : E8M0_LAST);
}

uint8_t block_scale_code(const struct block_format *f, double most, double tensor) {
    if (f->scale != BLOCK_SCALE_E4M3) return isfinite(most) ? e8m0_code(f, most) : E8M0_NAN;
    if (!isfinite(most)) return E4M3_NAN;
    return e4m3_from_float((float)most / (float)block_element_most(f->element) * (float)tensor);
}

/* ---- elements ---- */
static uint8_t nearest(enum dtype element, double x) {
    float odd = dtype_float_to_odd(x);
    return element == FP8_E4M3 ? e4m3_from_float(odd)
           : element == FP8_E5M2 ? e5m2_from_float(odd) : e2m1_from_float(odd);
}

/* Codes of one sign are in the order of their numbers. */
static uint8_t by_draw(enum dtype element, double x, uint32_t draw) {
    double a = fabs(x), most = block_element_most(element);
    uint8_t code = nearest(element, a < most ? a : most);
    if (block_element_value(element, code) > a) code--;
    double low = block_element_value(element, code);
    if (low < a && low < most && draw < 0x1p32 * (a - low) / (block_element_value(element, code + 1) - low)) code++;
    return (uint8_t)(signbit(x) ? code | (element == FP4_E2M1 ? 8 : 0x80) : code);
}

/* The factor of numbers before they are rounded. For NVFP4 it and the product are rounded to fp32, as in NVIDIA's
 * recipe; a factor that is infinite, because the scale is 0, becomes the largest number. */
static double scaled(const struct block_format *f, double x, double factor) {
    return f->scale == BLOCK_SCALE_E4M3 ? (double)((float)x * (float)factor) : x * factor;
}
static double factor_of(const struct block_format *f, uint8_t scale, double tensor) {
    double value = block_scale_value(f, scale);
    if (f->scale != BLOCK_SCALE_E4M3) return 1 / value;
    return fmin((double)(1 / ((float)value * (1 / (float)tensor))), (double)FLT_MAX);
}

/* The largest magnitude; infinity if a number is not finite. */
static double largest(int n, const double *x) {
    double most = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i])) return (double)INFINITY;
        most = fmax(most, fabs(x[i]));
    }
    return most;
}

void block_cast(const struct block_format *f, double tensor, int n, const double *x, const uint32_t *draws,
                uint8_t *code, uint8_t *scale) {
    double most = largest(n, x);
    *scale = block_scale_code(f, most, tensor);
    double factor = factor_of(f, *scale, tensor);
    for (int i = 0; i < n; i++) {
        double y = isfinite(most) ? scaled(f, x[i], factor) : 0;
        code[i] = draws ? by_draw(f->element, y, draws[i]) : nearest(f->element, y);
    }
}

void block_values(const struct block_format *f, int n, const uint8_t *code, uint8_t scale, double *value) {
    double s = block_scale_value(f, scale);
    for (int i = 0; i < n; i++) value[i] = s * block_element_value(f->element, code[i]);
}

/* ---- bytes ---- */
void block_pack(enum dtype element, int n, const uint8_t *code, uint8_t *bytes) {
    if (element != FP4_E2M1) memcpy(bytes, code, (size_t)n);
    else for (int i = 0; i < n; i += 2) bytes[i / 2] = (uint8_t)(code[i] | code[i + 1] << 4);
}

void block_unpack(enum dtype element, int n, const uint8_t *bytes, uint8_t *code) {
    if (element != FP4_E2M1) memcpy(code, bytes, (size_t)n);
    else for (int i = 0; i < n; i++) code[i] = (uint8_t)(bytes[i / 2] >> 4 * (i % 2) & 15);
}
