/* Helpers of the CUDA kernels, for the four element types. Only *_cuda.cu files include this.
 *
 * One source, four element types: the Makefile compiles every *_cuda.cu once for each of ELEM = fp64, fp32, bf16, fp16.
 *
 *   elem      the type in memory           real      the type of arithmetic: double for fp64, else float
 *   load(x)   elem -> real                 store(x)  real -> elem, rounded once
 *   CUDA(f)   the name a launcher f gets in this compilation: f_cuda_fp32, ...
 *   pack      16 bytes of elems, moved as one: PACK of them */
#pragma once

#include "lib/device/gpu.h"
#include "lib/base/integer.h"
#include "lib/ops/op.h"

#define CUDA_PASTE(function, elem) function##_cuda_##elem
#define CUDA_EXPAND(function, elem) CUDA_PASTE(function, elem)
#define CUDA(function) CUDA_EXPAND(function, ELEM)

#if defined ELEM_fp64
typedef double elem, real;
#define ELEM_DTYPE FP64
#define REAL_DTYPE FP64
__device__ static inline real load(elem x) { return x; }
__device__ static inline elem store(real x) { return x; }
#elif defined ELEM_fp32
typedef float elem, real;
#define ELEM_DTYPE FP32
#define REAL_DTYPE FP32
__device__ static inline real load(elem x) { return x; }
__device__ static inline elem store(real x) { return x; }
#elif defined ELEM_bf16
typedef __nv_bfloat16 elem;
typedef float real;
#define ELEM_DTYPE BF16
#define REAL_DTYPE FP32
__device__ static inline real load(elem x) { return __bfloat162float(x); }
__device__ static inline elem store(real x) { return __float2bfloat16(x); }
#elif defined ELEM_fp16
typedef __half elem;
typedef float real;
#define ELEM_DTYPE FP16
#define REAL_DTYPE FP32
__device__ static inline real load(elem x) { return __half2float(x); }
__device__ static inline elem store(real x) { return __float2half(x); }
#else
#error "compile with -DELEM=fp32 -DELEM_fp32 (or fp64, bf16, fp16)"
#endif

/* ---- 16 bytes at a time ---- */
enum { PACK = 16 / sizeof(elem) };
struct __align__(16) pack { elem x[PACK]; };

/* p must be 16-byte aligned. A tensor is aligned (ARENA_ALIGN), and so is its element i where PACK divides i. */
__device__ static inline pack pack_load(const elem *p) { return *(const pack *)p; }
__device__ static inline void pack_store(elem *p, pack v) { *(pack *)p = v; }

/* ---- sums over a warp and a block; every thread gets the result; the order is fixed by the sizes alone ---- */
__device__ static inline real warp_sum(real v) {
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
__device__ static inline real warp_max(real v) {
    for (int d = 16; d > 0; d >>= 1) {
        real other = __shfl_xor_sync(0xffffffffu, v, d);
        v = other > v ? other : v;
    }
    return v;
}

/* shared: 32 reals of shared memory, which the caller may reuse after its next __syncthreads. The block has one
 * dimension, a multiple of 32 threads. */
__device__ static inline real block_sum(real v, real *shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    v = warp_sum(v);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    return warp_sum(lane < n_warps ? shared[lane] : (real)0);
}
__device__ static inline real block_max(real v, real *shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    v = warp_max(v);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    return warp_max(lane < n_warps ? shared[lane] : shared[0]);
}

/* ---- writing results ---- */
/** *to = value, or += (call->accumulate); rounded once. */
__device__ static inline void put(elem *to, real value, int accumulate) {
    *to = store(accumulate ? load(*to) + value : value);
}
/** gradient[i] += value. A weight's gradient has the weight's dtype, or the accumulator's where gradients are kept in
 *  higher precision: gradient_is_real, from the launcher. */
__device__ static inline void grad_add(void *gradient, int gradient_is_real, int64_t i, real value) {
    if (gradient_is_real) ((real *)gradient)[i] += value;
    else ((elem *)gradient)[i] = store(load(((elem *)gradient)[i]) + value);
}

/* ---- in launchers ---- */
static inline int accumulates(const struct call *call, int i) { return call->accumulate >> i & 1; }
static inline int is_real(const struct tensor *t) { return t->type->dtype == REAL_DTYPE; }
/* Blocks of a grid-stride loop over n pieces of work. At most 4096, which fill the largest GPU a few times over. */
static inline unsigned grid_of(int64_t n, int64_t per_block) {
    int64_t blocks = ceil_div(n, per_block);
    return (unsigned)(blocks < 1 ? 1 : blocks > 4096 ? 4096 : blocks);
}
static inline void *stream_of(const struct call *call) { return call->device->stream; }
