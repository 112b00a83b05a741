/* AMX's eight registers of 16 rows of 64 bytes. Both kernels that use AMX divide them in the same way, for pairs of
 * bf16:
 *
 *   c 0 | c 1        a 4        b 6 | b 7       c += a b
 *   c 2 | c 3        a 5
 *
 *   c: 16 x 16 sums in fp32      a: 16 rows x 16 pairs of depths      b: 16 pairs of depths x 16 columns
 *
 * TDPBF16PS multiplies a by b in 16 cycles, 16 x 16 x 32 multiply-adds, sixteen times as many per cycle as a vector's
 * FMA. Two by two tiles of C need four loads for four products, so that loads keep up. Even and odd depths have
 * separate sums, which start from 0. Their FMAs read and write zero for subnormal numbers. Then the two sums are added,
 * and the result is added to C. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2,
 * LDTILECFG, TDPBF16PS. */
#pragma once

#include <immintrin.h>
#include <stdint.h>

enum { AMX_HALF = 16 };

/* What LDTILECFG reads. */
struct amx_shapes { uint8_t palette, start, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; };

static inline int64_t amx_part(int64_t n, bool second) {
    if (second) return n > AMX_HALF ? n - AMX_HALF : 0;
    return n < AMX_HALF ? n : AMX_HALF;
}

/* Set up the registers for `rows` rows and `columns` columns of C, at most 32, and `pairs` pairs of depths, at most 16,
 * and clear them. A register that has no rows or columns must then not be used. This takes as long as some products. */
static inline void amx_set_up(int64_t rows, int64_t columns, int64_t pairs) {
    _Alignas(64) struct amx_shapes s = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        int64_t n = i < 4 ? amx_part(rows, i >= 2) : i < 6 ? amx_part(rows, i == 5) : pairs;
        int64_t width = i < 4 ? amx_part(columns, i % 2) : i < 6 ? pairs : amx_part(columns, i == 7);
        if (n > 0 && width > 0) s.rows[i] = (uint8_t)n, s.row_bytes[i] = (uint16_t)(4 * width);
    }
    _tile_loadconfig(&s);
}
