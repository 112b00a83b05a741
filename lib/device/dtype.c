/* Conversions between element types: every result is rounded once, to nearest, ties to even. */
#include "lib/device/dtype.h"

#include <float.h>
#include <math.h>

const char *dtype_name(enum dtype d) {
    static const char *const names[N_DTYPES] = {"fp64", "fp32", "bf16", "fp16", "int32", "uint8",
                                                "fp8_e4m3", "fp8_e5m2", "fp4_e2m1"};
    return (unsigned)d < N_DTYPES ? names[d] : "unknown";
}

/* Only fp64 is rounded here; `to_odd` selects how. */
static void load_block(float *to, const void *from, enum dtype type, int64_t first, int64_t n, int to_odd) {
    const double *d = from;
    const float *f = from;
    const uint16_t *h = from;
    const uint8_t *b = from;
    switch (type) {
    case FP64:
        if (to_odd) for (int64_t i = 0; i < n; i++) to[i] = dtype_float_to_odd(d[first + i]);
        else for (int64_t i = 0; i < n; i++) to[i] = (float)d[first + i];
        break;
    case FP32: for (int64_t i = 0; i < n; i++) to[i] = f[first + i]; break;
    case BF16: for (int64_t i = 0; i < n; i++) to[i] = bf16_to_float(h[first + i]); break;
    case FP8_E4M3: for (int64_t i = 0; i < n; i++) to[i] = e4m3_to_float(b[first + i]); break;
    case FP8_E5M2: for (int64_t i = 0; i < n; i++) to[i] = e5m2_to_float(b[first + i]); break;
    default: for (int64_t i = 0; i < n; i++) to[i] = fp16_to_float(h[first + i]); break;
    }
}

static void store_block(void *to, enum dtype type, int64_t first, const float *from, int64_t n) {
    double *d = to;
    float *f = to;
    uint16_t *h = to;
    uint8_t *b = to;
    switch (type) {
    case FP64: for (int64_t i = 0; i < n; i++) d[first + i] = (double)from[i]; break;
    case FP32: for (int64_t i = 0; i < n; i++) f[first + i] = from[i]; break;
    case BF16: for (int64_t i = 0; i < n; i++) h[first + i] = bf16_from_float(from[i]); break;
    case FP8_E4M3: for (int64_t i = 0; i < n; i++) b[first + i] = e4m3_from_float(from[i]); break;
    case FP8_E5M2: for (int64_t i = 0; i < n; i++) b[first + i] = e5m2_from_float(from[i]); break;
    default: for (int64_t i = 0; i < n; i++) h[first + i] = fp16_from_float(from[i]); break;
    }
}

void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n) {
    if (to_type == from_type) {
        memcpy(to, from, (size_t)n * dtype_size(from_type));
        return;
    }
    if (from_type == FP32) {
        store_block(to, to_type, 0, from, n);
        return;
    }
    if (to_type == FP32) {
        load_block(to, from, from_type, 0, n, 0);
        return;
    }
    /* Convert through a block of floats that stays in the first-level cache: 6 + 6 loops instead of 36. */
    enum { BLOCK = 512 };
    float block[BLOCK];
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t count = n - first < BLOCK ? n - first : BLOCK;
        load_block(block, from, from_type, first, count, to_type != FP64);
        store_block(to, to_type, first, block, count);
    }
}

/* A number is not finite if all bits of its exponent are set. No loop ends early, so that all of them vectorise. */
int dtype_all_finite(const void *x, enum dtype type, int64_t n) {
    const double *d = x;
    const float *f = x;
    const uint16_t *h = x;
    int bad = 0;
    switch (type) {
    case FP64: for (int64_t i = 0; i < n; i++) bad |= !(fabs(d[i]) <= DBL_MAX); break;
    case FP32: for (int64_t i = 0; i < n; i++) bad |= !(fabsf(f[i]) <= FLT_MAX); break;
    case BF16: for (int64_t i = 0; i < n; i++) bad |= (h[i] & 0x7f80) == 0x7f80; break;
    case FP16: for (int64_t i = 0; i < n; i++) bad |= (h[i] & 0x7c00) == 0x7c00; break;
    default: for (int64_t i = 0; i < n; i++) bad |= !isfinite(dtype_get(x, type, i)); break;
    }
    return !bad;
}

double dtype_get(const void *x, enum dtype d, int64_t i) {
    switch (d) {
    case FP64: return ((const double *)x)[i];
    case FP32: return (double)((const float *)x)[i];
    case BF16: return (double)bf16_to_float(((const uint16_t *)x)[i]);
    case FP16: return (double)fp16_to_float(((const uint16_t *)x)[i]);
    case FP8_E4M3: return (double)e4m3_to_float(((const uint8_t *)x)[i]);
    case FP8_E5M2: return (double)e5m2_to_float(((const uint8_t *)x)[i]);
    case FP4_E2M1: return (double)e2m1_to_float(((const uint8_t *)x)[i / 2] >> 4 * (i % 2) & 15);
    case INT32: return (double)((const int32_t *)x)[i];
    default: return (double)((const uint8_t *)x)[i];
    }
}

void dtype_set(void *x, enum dtype d, int64_t i, double value) {
    switch (d) {
    case FP64: ((double *)x)[i] = value; break;
    case FP32: ((float *)x)[i] = (float)value; break;
    case BF16: ((uint16_t *)x)[i] = bf16_from_float(dtype_float_to_odd(value)); break;
    case FP16: ((uint16_t *)x)[i] = fp16_from_float(dtype_float_to_odd(value)); break;
    case FP8_E4M3: ((uint8_t *)x)[i] = e4m3_from_float(dtype_float_to_odd(value)); break;
    case FP8_E5M2: ((uint8_t *)x)[i] = e5m2_from_float(dtype_float_to_odd(value)); break;
    case INT32: ((int32_t *)x)[i] = (int32_t)value; break;
    default: ((uint8_t *)x)[i] = (uint8_t)value; break;
    }
}
