/* Block-scaled formats: a block of 16 or 32 numbers has one scale, and codes of 8 or 4 bits.
 *
 *   number = code x scale                          MXFP8: E4M3 or E5M2; MXFP4: E2M1. 32 numbers, scale 2^n (E8M0)
 *   number = code x scale / tensor                 NVFP4: E2M1. 16 numbers, scale in E4M3; `tensor` is one fp32
 *
 * With m the largest magnitude of the block, c the largest number of the codes' format, and 2^k the power of two in c:
 *
 *   E8M0, down (OCP)      scale = 2^(floor(log2 m) - k)               numbers above c scale saturate
 *   E8M0, up (NVIDIA)     scale = the least 2^n with m <= c 2^n       none saturates
 *   E4M3                  scale = e4m3(m / c x tensor), in fp32       tensor = 448 x 6 / the tensor's largest magnitude
 *
 * E8M0 goes from 2^-127 to 2^127; a scale beyond is the last one. Codes are rounded to nearest, ties to even, and
 * saturate; or by draws: up with a probability equal to the distance to the neighbor below. So the mean of many
 * stochastic roundings is the number itself, if it is not above the largest.
 *
 * A block with a number that is not finite has the scale NaN, and is NaN in all its numbers: E2M1 has neither NaN nor
 * infinity. The standard leaves this to the implementation.
 *
 * A random Hadamard transform spreads an outlier over 16 numbers before they are cast: x becomes H D x / 4, where H has
 * the entries 1 and -1 of Sylvester's matrix, and D random signs. H D / 4 is orthogonal, so a sum of 16 products of two
 * operands that both have it is what it was. No number becomes more than 4 times the largest.
 *
 * Codes are one byte each here; in memory two E2M1 share a byte (block_pack).
 *
 * Source: OCP Microscaling Formats (MX) Specification v1.0, 2023, sections 5 and 6.3; Mishra et al. 2025, "Recipes for
 * pre-training LLMs with MXFP8" (arXiv 2506.08027: up); NVIDIA 2025, "Pretraining large language models with NVFP4"
 * (arXiv 2509.25149, appendix C; the transform: section 4.2 and appendix C). */
#pragma once

#include "lib/device/dtype.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum block_scale { BLOCK_SCALE_DOWN, BLOCK_SCALE_UP, BLOCK_SCALE_E4M3 };
/* element: FP8_E4M3, FP8_E5M2 or FP4_E2M1. size: numbers in a row that share a scale */
struct block_format { enum dtype element; int size; enum block_scale scale; };

enum { BLOCK_MOST = 16 * 16 };           /* numbers that share a scale: 32 in a row, or 16 x 16 of a weight in NVFP4 */

/** The scale's code of a block with this largest magnitude, finite or not. tensor: 1 without a second level. Pure */
uint8_t block_scale_code(const struct block_format *, double most, double tensor);

/** Cast n <= BLOCK_MOST numbers that share a scale.
 *  @param draws (n) uniform 32-bit words, for stochastic rounding; NULL: to nearest
 *  @param code (n), *scale: written */
void block_cast(const struct block_format *, double tensor, int n, const double *x, const uint32_t *draws,
                uint8_t *code, uint8_t *scale);

/** The numbers of n codes, times `tensor`: exact in double, and in fp32. */
void block_values(const struct block_format *, int n, const uint8_t *code, uint8_t scale, double *value);

enum { BLOCK_MIXED = 16, BLOCK_MIX_GROWS = 4 };
/** Replace 16 numbers by H D / 4 times them. signs: bit i is set where D has -1 for number i. */
static inline void block_mix(uint32_t signs, double x[BLOCK_MIXED]) {
    for (int i = 0; i < BLOCK_MIXED; i++) x[i] = (signs >> i & 1 ? -x[i] : x[i]) / BLOCK_MIX_GROWS;
    for (int half = 1; half < BLOCK_MIXED; half *= 2)
        for (int i = 0; i < BLOCK_MIXED; i++)
            if (!(i & half)) {
                double a = x[i], b = x[i + half];
                x[i] = a + b, x[i + half] = a - b;
            }
}

/** The number of a scale's code; of an element's. */
double block_scale_value(const struct block_format *, uint8_t scale);
double block_element_value(enum dtype element, uint8_t code);
/** The largest number of an element's format. */
double block_element_most(enum dtype element);

/** Bytes of n numbers: codes and scales. */
static inline double block_bytes(const struct block_format *f, double n) {
    return n * ((f->element == FP4_E2M1 ? 0.5 : 1) + 1.0 / f->size);
}
/** Bytes of n codes (n is even for E2M1). */
static inline int64_t block_code_bytes(enum dtype element, int64_t n) { return element == FP4_E2M1 ? n / 2 : n; }
/** Codes to the bytes that they take in memory, and back. n is even for E2M1. */
void block_pack(enum dtype element, int n, const uint8_t *code, uint8_t *bytes);
void block_unpack(enum dtype element, int n, const uint8_t *bytes, uint8_t *code);

/* ---- scales as tensor cores read them ----
 * cuBLASLt reads the scales of a matrix in tiles: of 128 rows, and 4 blocks of each. Tiles lie in row-major order. In a
 * tile the 4 scales of a row are neighbors, and 16 bytes have rows r, r + 32, r + 64 and r + 96:
 *
 *   (0,0..3) (32,0..3) (64,0..3) (96,0..3) (1,0..3) (33,0..3) ... (127,0..3)
 *
 * A matrix that ends within a tile is filled up with zeros. Source: cuBLAS library documentation, 13.0, "1D block
 * scaling factors layout". */
enum { BLOCK_TILE_ROWS = 128, BLOCK_TILE_BLOCKS = 4 };
/** Blocks of a row, with those that fill up the last tile. */
DTYPE_FUNCTION int64_t block_tiled(int64_t blocks) {
    return (blocks + BLOCK_TILE_BLOCKS - 1) / BLOCK_TILE_BLOCKS * BLOCK_TILE_BLOCKS;
}
/** Bytes of the scales of a matrix of `rows` with `blocks` each. */
DTYPE_FUNCTION int64_t block_tiled_bytes(int64_t rows, int64_t blocks) {
    return (rows + BLOCK_TILE_ROWS - 1) / BLOCK_TILE_ROWS * BLOCK_TILE_ROWS * block_tiled(blocks);
}
/** The place of the scale of a block of a row. tiled: block_tiled of the blocks that a row has. */
DTYPE_FUNCTION int64_t block_scale_place(int64_t row, int64_t block, int64_t tiled) {
    int64_t tile = row / BLOCK_TILE_ROWS * (tiled / BLOCK_TILE_BLOCKS) + block / BLOCK_TILE_BLOCKS;
    return tile * BLOCK_TILE_ROWS * BLOCK_TILE_BLOCKS + row % 32 * 16 + row % BLOCK_TILE_ROWS / 32 * 4 +
           block % BLOCK_TILE_BLOCKS;
}

#ifdef __cplusplus
}
#endif
