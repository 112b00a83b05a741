/* Conversions between element types: every result is rounded once, to nearest, ties to even. */
#include "lib/device/dtype.h"

#include <math.h>

const char *dtype_name(enum dtype d) {
    static const char *const names[N_DTYPES] = {"fp64", "fp32", "bf16", "fp16", "int32", "uint8"};
    return (unsigned)d < N_DTYPES ? names[d] : "unknown";
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* fp16: 1 sign, 5 exponent (bias 15), 10 mantissa bits; fp32: 1, 8 (bias 127), 23. The biases differ by 112. */
float fp16_to_float(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, exponent = x >> 10 & 31u, mantissa = x & 0x3ffu;
    if (exponent == 31) return float_of(sign | 0x7f800000u | mantissa << 13);          /* infinity, NaN */
    if (exponent == 0) return float_of(sign | bits_of((float)mantissa * 0x1p-24f));    /* zero, subnormal */
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t fp16_from_float(float x) {
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu)); /* NaN, made quiet */
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520: half way past the largest, 65504 */
    if (magnitude < 0x38800000u) {
        /* Below 2^-14 fp16 counts in steps of 2^-24, which is also fp32's step in [0.5, 1): adding 0.5 rounds. */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u); /* a carry into the exponent is right as it is */
    return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

/* double -> float for a value that will be rounded again, to 16 bits: truncate, and set the last bit if anything got
 * lost. ("Round to odd"; rounding to nearest twice would turn values just beside a tie into ties. Boldo, Melquiond 2008.) */
static float float_to_odd(double x) {
    float nearest = (float)x;
    if ((double)nearest == x || isnan(x)) return nearest;
    uint32_t bits = bits_of(nearest);
    if (fabs((double)nearest) > fabs(x)) bits--; /* towards zero; from infinity to the largest finite float */
    return float_of(bits | 1u);
}

/* The compiler's half is one instruction on most machines; the portable form above is its specification. */
static inline uint16_t half_store(float x) {
#ifdef __FLT16_MANT_DIG__
    _Float16 h = (_Float16)x;
    uint16_t y;
    memcpy(&y, &h, sizeof y);
    return y;
#else
    return fp16_from_float(x);
#endif
}

static inline float half_load(uint16_t x) {
#ifdef __FLT16_MANT_DIG__
    _Float16 h;
    memcpy(&h, &x, sizeof h);
    return (float)h;
#else
    return fp16_to_float(x);
#endif
}

/* Only fp64 loses anything here, and only as much as `to` allows. */
static void load_block(float *to, const void *from, enum dtype type, int64_t first, int n, int to_odd) {
    const double *d = from;
    const float *f = from;
    const uint16_t *h = from;
    switch (type) {
    case FP64:
        if (to_odd) for (int i = 0; i < n; i++) to[i] = float_to_odd(d[first + i]);
        else for (int i = 0; i < n; i++) to[i] = (float)d[first + i];
        break;
    case FP32: for (int i = 0; i < n; i++) to[i] = f[first + i]; break;
    case BF16: for (int i = 0; i < n; i++) to[i] = bf16_to_float(h[first + i]); break;
    default: for (int i = 0; i < n; i++) to[i] = half_load(h[first + i]); break;
    }
}

static void store_block(void *to, enum dtype type, int64_t first, const float *from, int n) {
    double *d = to;
    float *f = to;
    uint16_t *h = to;
    switch (type) {
    case FP64: for (int i = 0; i < n; i++) d[first + i] = (double)from[i]; break;
    case FP32: for (int i = 0; i < n; i++) f[first + i] = from[i]; break;
    case BF16: for (int i = 0; i < n; i++) h[first + i] = bf16_from_float(from[i]); break;
    default: for (int i = 0; i < n; i++) h[first + i] = half_store(from[i]); break;
    }
}

void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n) {
    if (to_type == from_type) {
        memcpy(to, from, (size_t)n * dtype_size(from_type));
        return;
    }
    /* Through a block of floats that stays in the first-level cache: 4 + 4 loops instead of 16. */
    enum { BLOCK = 512 };
    float block[BLOCK];
    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = n - first < BLOCK ? (int)(n - first) : BLOCK;
        load_block(block, from, from_type, first, count, to_type == BF16 || to_type == FP16);
        store_block(to, to_type, first, block, count);
    }
}

double dtype_get(const void *x, enum dtype d, int64_t i) {
    switch (d) {
    case FP64: return ((const double *)x)[i];
    case FP32: return (double)((const float *)x)[i];
    case BF16: return (double)bf16_to_float(((const uint16_t *)x)[i]);
    case FP16: return (double)fp16_to_float(((const uint16_t *)x)[i]);
    case INT32: return (double)((const int32_t *)x)[i];
    default: return (double)((const uint8_t *)x)[i];
    }
}

void dtype_set(void *x, enum dtype d, int64_t i, double value) {
    switch (d) {
    case FP64: ((double *)x)[i] = value; break;
    case FP32: ((float *)x)[i] = (float)value; break;
    case BF16: ((uint16_t *)x)[i] = bf16_from_float(float_to_odd(value)); break;
    case FP16: ((uint16_t *)x)[i] = fp16_from_float(float_to_odd(value)); break;
    case INT32: ((int32_t *)x)[i] = (int32_t)value; break;
    default: ((uint8_t *)x)[i] = (uint8_t)value; break;
    }
}
