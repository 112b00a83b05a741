/* Casts to fp8, and transposes. See fp8.h.
 *
 * Memory-bound: x is read once, and its codes are written in x's order, transposed ("turned"), or both. A block has a
 * tile of 32 x 32 numbers. A warp reads 32 neighbors of a row, and writes 32 neighbors of a row of the result, so that
 * transposed codes go through shared memory. Each block raises amax by one atomic maximum. A maximum is exact, so the
 * order of blocks does not matter. The atomic compares bits, which are ordered as numbers >= 0 are; infinity stands for
 * NaN. */
#include "lib/ops/cuda.h"
#include "lib/ops/fp8_cuda.h"

extern "C" {
kernel CUDA(cast_fp8_forward);
fp8_cast_kernel CUDA(fp8_cast);
fp8_turn_kernel fp8_turn_cuda_fp32;
}

enum { TILE = 32, WARPS = 8 };

#if defined ELEM_fp64
#define LARGEST 0x1.fffffffffffffp1023
#else
#define LARGEST 0x1.fffffep127f
#endif

__device__ static inline void note_amax(double *amax, real block_most) {
    if (amax && threadIdx.x == 0 && block_most > 0)
        atomicMax((unsigned long long *)amax, (unsigned long long)__double_as_longlong((double)block_most));
}

/* Write a tile of codes transposed: each warp writes a row of the result. The caller synchronizes the block after the
 * tile is written. */
__device__ static inline void store_turned(uint8_t *turned, const uint8_t (*tile)[TILE + 4], int64_t row,
                                           int64_t column, int64_t rows, int64_t columns) {
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS)
        if (row + lane < rows && column + i < columns) turned[(column + i) * rows + row + lane] = tile[lane][i];
}

__global__ static void __launch_bounds__(32 * WARPS)
cast_tile(uint8_t *code, uint8_t *turned, double *amax, const elem *x, int64_t rows, int64_t columns, real scale,
          int is_gradient) {
    __shared__ uint8_t tile[TILE][TILE + 4];
    __shared__ real shared[32];
    int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE, c = column + threadIdx.x % 32;
    real most = 0;
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS) {
        int64_t r = row + i;
        if (r >= rows || c >= columns) continue;
        real v = load(x[r * columns + c]), a = v < 0 ? -v : v;
        float scaled = (float)(scale * v);
        uint8_t q = is_gradient ? e5m2_from_float(scaled) : e4m3_from_float(scaled);
        if (!(a <= (real)LARGEST)) a = (real)INFINITY;
        most = a > most ? a : most;
        if (code) code[r * columns + c] = q;
        tile[i][threadIdx.x % 32] = q;
    }
    note_amax(amax, block_max(most, shared));                    /* all threads of the block synchronize in block_max */
    if (turned) store_turned(turned, tile, row, column, rows, columns);
}

static dim3 tiles(int64_t rows, int64_t columns) {
    return dim3((unsigned)ceil_div(rows, TILE), (unsigned)ceil_div(columns, TILE));
}

enum status CUDA(fp8_cast)(const struct call *call, const struct fp8_cast *c) {
    const struct fp8_rule *rule = &call->step->fp8;
    double *amax = call->training ? rule->amax + rule->first + c->tensor : NULL;
    return LAUNCHED(cast_tile, tiles(c->rows, c->columns), 32 * WARPS, 0, stream_of(call), c->code, c->turned, amax,
                    (const elem *)c->x, c->rows, c->columns, (real)fp8_scale(call, c->tensor), c->tensor == FP8_DY);
}

/* Codes are bytes for every element type, so only the fp32 object has this kernel. */
#ifdef ELEM_fp32
__global__ static void __launch_bounds__(32 * WARPS)
turn_tile(uint8_t *turned, const uint8_t *code, int64_t rows, int64_t columns) {
    __shared__ uint8_t tile[TILE][TILE + 4];
    int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE;
    int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < TILE; i += WARPS)
        if (row + i < rows && column + lane < columns) tile[i][lane] = code[(row + i) * columns + column + lane];
    __syncthreads();
    store_turned(turned, tile, row, column, rows, columns);
}

enum status fp8_turn_cuda_fp32(const struct call *call, const uint8_t *code, int64_t rows, int64_t columns,
                           uint8_t *turned) {
    return LAUNCHED(turn_tile, tiles(rows, columns), 32 * WARPS, 0, stream_of(call), turned, code, rows, columns);
}
#endif

enum status CUDA(cast_fp8_forward)(const struct call *call) {
    const struct shape *s = &call->in[0].type->shape;
    int64_t columns = s->axis[s->n_axes - 1].n, n = type_n(call->in[0].type);
    struct fp8_cast c = {FP8_X, call->in[0].data, n / columns, columns, (uint8_t *)call->out[0].data, NULL};
    return CUDA(fp8_cast)(call, &c);
}
