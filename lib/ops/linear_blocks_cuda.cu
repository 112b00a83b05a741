/* Casts by blocks on a GPU: codes in the order that tensor cores read, and scales in their tiles. See block.h for the
 * formats, fp8_cuda.h for the layouts, and block.c for the same one number at a time.
 *
 * Memory-bound, as the casts of fp8_cuda.cu: x is read once. A block of threads has a tile of 32 x 32 numbers in shared
 * memory, and a warp casts a row of it, or a column, at a time. The 16 or 32 lanes whose numbers share a scale find the
 * largest by shuffles. So a warp writes 32 codes next to one another in either order. The tiles of scales that end
 * beyond the matrix are filled up by blocks of threads that have no numbers.
 *
 * block.c computes in double, and this in fp32 with the same bits. A factor of E8M0 is a power of two, so the product
 * with it is exact, or is so small that it becomes zero, or by a draw of 0 the smallest code. NVFP4 is defined in fp32
 * (block.h). Only block_mix, whose sums fp32 would round, is in double here, too.
 *
 * Draws: four neighbors of a row have one Philox block, and each of four lanes computes it. */
#include "lib/ops/cuda.h"
#include "lib/ops/fp8_cuda.h"
#include <float.h>

/* The model's dtypes that have block scales on a GPU. */
#if defined ELEM_fp32 || defined ELEM_bf16

extern "C" {
blocks_cast_kernel CUDA(blocks_cast);
blocks_tile_kernel blocks_tile_cuda_fp32;
}

enum { TILE = 32, WARPS = 8, E8M0_NAN = 255, E8M0_LAST = 254, E4M3_NAN = 0x7f };
/* A magnitude by its bits, which are ordered as numbers are. NOT_FINITE is above all: the number is infinite or NaN. */
#define INFINITE   0x7f800000u
#define NOT_FINITE 0x7fffffffu

struct cast {
    const elem *x;
    uint8_t *code, *scale;
    double *amax;
    int64_t rows, columns, tiled;        /* tiled: blocks of a row of codes, with those of the last tile; 0: no tiles */
    struct block_format format;
    float most, tensor;                  /* the largest code; the scale of the tensor */
    int turned, square, mixed, drawn;
    uint32_t signs;
    struct philox_key key;
    int64_t first_sample;
    enum block_product product;
    struct shape y;
};

/* ---- the largest of the lanes that share a scale ---- */
__device__ static inline uint32_t magnitude(float x) {
    uint32_t bits = dtype_bits_of(x) & 0x7fffffffu;
    return bits < INFINITE ? bits : NOT_FINITE;
}
__device__ static inline uint32_t most_of_lanes(uint32_t bits, int lanes) {
    for (int d = lanes / 2; d > 0; d /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, bits, d);
        bits = other > bits ? other : bits;
    }
    return bits;
}

/* ---- scales: block_scale_code, and the factor of numbers before they are rounded ---- */
/* With the exponents' bias both powers of two are exponent fields: of `most`, and of the largest code. */
__device__ static inline uint8_t e8m0_code(const struct cast &c, uint32_t most) {
    uint32_t largest = dtype_bits_of(c.most), fraction = 0x007fffffu;
    int up = c.format.scale == BLOCK_SCALE_UP && (most & fraction) > (largest & fraction);
    int code = (int)(most >> 23) - (int)(largest >> 23) + 127 + up;
    if (most == 0 || code < 0) return 0;
    return (uint8_t)(code < E8M0_LAST ? code : E8M0_LAST);
}
__device__ static inline uint8_t scale_code(const struct cast &c, uint32_t most) {
    if (c.format.scale != BLOCK_SCALE_E4M3) return most == NOT_FINITE ? (uint8_t)E8M0_NAN : e8m0_code(c, most);
    return most == NOT_FINITE ? (uint8_t)E4M3_NAN : e4m3_from_float(dtype_float_of(most) / c.most * c.tensor);
}
__device__ static inline float factor_of(const struct cast &c, uint8_t scale) {
    if (c.format.scale == BLOCK_SCALE_E4M3) return fminf(1 / (e4m3_to_float(scale) * (1 / c.tensor)), FLT_MAX);
    return scale < E8M0_LAST ? dtype_float_of((uint32_t)(E8M0_LAST - scale) << 23) : 0x1p-127f;
}

/* ---- codes ---- */
__device__ static inline uint8_t nearest(enum dtype element, float x) {
    return element == FP8_E4M3 ? e4m3_from_float(x) : element == FP8_E5M2 ? e5m2_from_float(x) : e2m1_from_float(x);
}

/* E2M1, up for draws below 2^32 (a - low) / (next - low). These differences are exact, and the threshold is an integer
 * if it has more than 24 bits. */
__device__ static inline uint8_t by_draw(float x, uint32_t draw) {
    float a = fabsf(x);
    int low = (a >= 0.5f) + (a >= 1) + (a >= 1.5f) + (a >= 2) + (a >= 3) + (a >= 4) + (a >= 6);
    float from = low < 4 ? 0.5f * (float)low : low < 6 ? (float)(low - 2) : low == 6 ? 4.0f : 6.0f;
    float steps = low < 4 ? 0x1p33f : low < 6 ? 0x1p32f : 0x1p31f, threshold = (a - from) * steps;
    if (low < 7) {
        uint32_t whole = (uint32_t)threshold;
        low += draw < whole || (draw == whole && threshold > (float)whole);
    }
    return (uint8_t)(low | (dtype_bits_of(x) >> 28 & 8u));
}

/* x may have become zero on the way to y. */
__device__ static inline uint8_t code_of(const struct cast &c, float x, float y, int64_t r, int64_t k) {
    if (!c.drawn) return nearest(c.format.element, y);
    if (c.format.scale != BLOCK_SCALE_E4M3 && y == 0 && x != 0) y = copysignf(0x1p-149f, x);
    struct philox_counter four = blocks_draw_four(&c.y, c.key, c.first_sample, c.product, (uint32_t)r,
                                                  (uint32_t)(k / 4 * 4));
    int i = (int)(k % 4);                /* an index that is not constant would put the four into memory */
    return by_draw(y, i == 0 ? four.v[0] : i == 1 ? four.v[1] : i == 2 ? four.v[2] : four.v[3]);
}

/* block_mix over 16 lanes: butterflies of neighbors, then of pairs, ... */
__device__ static inline double mixed(double x, uint32_t signs, int lane) {
    double v = (signs >> lane % BLOCK_MIXED & 1 ? -x : x) / BLOCK_MIX_GROWS;
    for (int half = 1; half < BLOCK_MIXED; half *= 2) {
        double other = __shfl_xor_sync(0xffffffffu, v, half);
        v = lane & half ? other - v : v + other;
    }
    return v;
}

/* ---- a tile ---- */
/* halves: the largest of 16 neighbors of a row, for squares. */
struct tile { float x[TILE][TILE + 1]; uint32_t halves[TILE][2], most[WARPS]; };

__device__ static inline void load_tile(const struct cast &c, struct tile *t, int64_t row, int64_t column) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t most = 0;
    for (int i = warp; i < TILE; i += WARPS) {
        float v = load(c.x[(row + i) * c.columns + column + lane]);
        uint32_t half = most_of_lanes(magnitude(v), 16);
        t->x[i][lane] = v;
        if (lane % 16 == 0) t->halves[i][lane / 16] = half;
        most = half > most ? half : most;
    }
    most = most_of_lanes(most, 32);
    if (lane == 0) t->most[warp] = most;
}

__device__ static inline void note_amax(double *amax, const struct tile *t) {
    uint32_t most = 0;
    for (int i = 0; i < WARPS; i++) most = t->most[i] > most ? t->most[i] : most;
    double value = most == NOT_FINITE ? (double)INFINITY : (double)dtype_float_of(most);
    if (most > 0) atomicMax((unsigned long long *)amax, (unsigned long long)__double_as_longlong(value));
}

/* The largest number that shares lane's scale, in row i of the tile, or column i if it is turned. */
__device__ static inline uint32_t most_of_block(const struct cast &c, const struct tile *t, uint32_t own, int i,
                                                int lane) {
    if (!c.square) return most_of_lanes(own, c.format.size);
    return most_of_lanes(c.turned ? t->halves[lane][i / 16] : t->halves[i / 16 * 16 + lane % 16][lane / 16], 16);
}

/* Two codes of E2M1 share a byte. */
__device__ static inline void store_code(const struct cast &c, int64_t at, uint8_t code, int lane) {
    if (c.format.element != FP4_E2M1) {
        c.code[at] = code;
        return;
    }
    int next = __shfl_xor_sync(0xffffffffu, (int)code, 1);
    if (lane % 2 == 0) c.code[at / 2] = (uint8_t)(code | next << 4);
}

__device__ static inline int64_t scale_place(const struct cast &c, int64_t vector, int64_t block) {
    int64_t blocks = (c.turned ? c.rows : c.columns) / c.format.size;
    return c.tiled ? block_scale_place(vector, block, c.tiled) : vector * blocks + block;
}

/* Row i of the tile, or column i. k: the place of lane's number in its row or column of x. */
__device__ static inline void cast_vector(const struct cast &c, const struct tile *t, int64_t row, int64_t column,
                                          int i) {
    int lane = threadIdx.x % 32, r = c.turned ? lane : i, l = c.turned ? i : lane;
    int64_t vector = c.turned ? column + i : row + i, k = (c.turned ? row : column) + lane;
    float x = t->x[r][l];
    uint32_t own = magnitude(x);
    if (c.mixed) {
        double wide = mixed((double)x, c.signs, lane);
        x = (float)wide;
        own = fabs(wide) <= DBL_MAX ? dtype_bits_of(x) & 0x7fffffffu : NOT_FINITE;
    }
    uint32_t most = most_of_block(c, t, own, i, lane);
    uint8_t scale = scale_code(c, most);
    if (most == NOT_FINITE) x = 0;
    float y = x * factor_of(c, scale);
    store_code(c, vector * (c.turned ? c.rows : c.columns) + k, code_of(c, x, y, row + r, column + l), lane);
    if (lane % c.format.size == 0) c.scale[scale_place(c, vector, k / c.format.size)] = scale;
}

/* A tile of numbers that are not there: the scales of its 32 vectors are 0. */
__device__ static inline void fill_scales(const struct cast &c, int64_t row, int64_t column) {
    int64_t vector = (c.turned ? column : row) + threadIdx.x % 32;
    int64_t first = (c.turned ? row : column) / c.format.size;
    for (int i = threadIdx.x / 32; i < TILE / c.format.size; i += WARPS)
        c.scale[scale_place(c, vector, first + i)] = 0;
}

__global__ static void __launch_bounds__(32 * WARPS) cast_blocks_tile(struct cast c) {
    __shared__ struct tile t;
    int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE;
    if (row >= c.rows || column >= c.columns) {
        fill_scales(c, row, column);
        return;
    }
    load_tile(c, &t, row, column);
    __syncthreads();
    if (c.amax && threadIdx.x == 0) note_amax(c.amax, &t);
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS) cast_vector(c, &t, row, column, i);
}

/* ---- launchers ---- */
static struct cast cast_of(const struct call *call, const struct blocks_cast *b) {
    const struct block_rule *rule = &call->step->blocks;
    struct cast c;
    memset(&c, 0, sizeof c);
    c.x = (const elem *)b->x, c.code = b->code, c.scale = b->scale;
    c.rows = b->rows, c.columns = b->columns;
    c.format = blocks_format(call, b->tensor);
    c.most = (float)block_element_most(c.format.element);
    c.tensor = (float)blocks_tensor_scale(call, b->tensor, b->product);
    c.amax = blocks_have_levels(call) && call->training ? rule->scales.amax + rule->scales.first + b->tensor : NULL;
    c.turned = blocks_turned(b);
    c.square = b->tensor == FP8_W && rule->square;
    c.mixed = blocks_are_mixed(call, b->product);
    c.signs = c.mixed ? blocks_signs(call) : 0;
    c.drawn = b->tensor == FP8_DY && rule->stochastic;
    c.product = b->product;
    if (c.drawn) {
        c.key = rng_key(call->seed, rule->stream, call->n_step);
        c.first_sample = call->first_sample;
        c.y = call->out[0].type->shape;
    }
    return c;
}

enum status CUDA(blocks_cast)(const struct call *call, const struct blocks_cast *b) {
    struct cast c = cast_of(call, b);
    const int kept = b->tensor == FP8_X && b->product == FOR_DW, size = c.format.size;
    const int64_t vectors = c.turned ? c.columns : c.rows, n = c.turned ? c.rows : c.columns;
    const int64_t all = kept ? vectors : block_tiled_bytes(vectors, 1) / BLOCK_TILE_BLOCKS;
    const int64_t long_n = kept ? n : block_tiled(n / size) * size;
    c.tiled = kept ? 0 : block_tiled(n / size);
    dim3 grid((unsigned)ceil_div(c.turned ? long_n : all, TILE), (unsigned)ceil_div(c.turned ? all : long_n, TILE));
    return LAUNCHED(cast_blocks_tile, grid, 32 * WARPS, 0, stream_of(call), c);
}

/* Scales are bytes for every element type, so only the fp32 object has this kernel. */
#ifdef ELEM_fp32
__global__ static void __launch_bounds__(256)
tile_scales(uint8_t *tiled, const uint8_t *scale, int64_t rows, int64_t blocks) {
    int64_t wide = block_tiled(blocks), n = block_tiled_bytes(rows, blocks), stride = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        int64_t row = i / wide, block = i % wide;
        tiled[block_scale_place(row, block, wide)] = row < rows && block < blocks ? scale[row * blocks + block] : 0;
    }
}

enum status blocks_tile_cuda_fp32(const struct call *call, const uint8_t *scale, int64_t rows, int64_t blocks,
                                  uint8_t *tiled) {
    return LAUNCHED(tile_scales, grid_of(block_tiled_bytes(rows, blocks), 256), 256, 0, stream_of(call), tiled, scale,
                    rows, blocks);
}
#endif

#endif
