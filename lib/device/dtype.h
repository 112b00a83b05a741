/* Element types. fp64 and fp32 compute as they are; bf16 and fp16 are stored so and computed in fp32, rounded once. */
#ifndef TRIVIUM_DEVICE_DTYPE_H
#define TRIVIUM_DEVICE_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dtype { FP64, FP32, BF16, FP16, INT32, UINT8, N_DTYPES };

static inline size_t dtype_size(enum dtype d) {
    return d == FP64 ? 8 : d == FP32 || d == INT32 ? 4 : d == UINT8 ? 1 : 2;
}
const char *dtype_name(enum dtype); /* "fp64", "fp32", "bf16", "fp16", "int32", "uint8" */

/** The type in which an op sums and keeps statistics: fp64 for fp64, else fp32. */
static inline enum dtype dtype_accumulator(enum dtype d) { return d == FP64 ? FP64 : FP32; }

/* bf16 is the upper half of a float. Rounding is to nearest, ties to even; NaN stays NaN. */
static inline float bf16_to_float(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}
static inline uint16_t bf16_from_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* IEEE half, portable form; the compiler's own conversion is used inside kernels where it has one. */
float fp16_to_float(uint16_t);
uint16_t fp16_from_float(float);

/** n elements of `from` converted to `to`. Source and target do not overlap. Not for INT32 / UINT8. */
void dtype_convert(void *to, enum dtype to_type, const void *from, enum dtype from_type, int64_t n);

/** One element as double / from double, at index i. */
double dtype_get(const void *x, enum dtype, int64_t i);
void dtype_set(void *x, enum dtype, int64_t i, double value);

#ifdef __cplusplus
}
#endif
#endif
