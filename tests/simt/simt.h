/* CUDA's dialect for g++, so that .cu files run on the CPU as they are. The compiler's command line includes this file
 * first (g++ -x c++ -include tests/simt/simt.h kernel.cu). Idea, checks and limits: docs/simt.md.
 *
 *   simt_launch.h    LAUNCH, and the permission for large shared memory
 *   simt_barrier.h   __syncthreads, __syncwarp, shared memory
 *   simt_warp.h      shuffles and votes           simt_atomic.h   atomics
 *   simt_math.h      intrinsic functions          simt_types.h    16-bit floats
 *   simt_wmma.h      tensor cores: nvcuda::wmma
 *
 * Types come from the CUDA toolkit's own headers; where there is none, from tests/simt/toolkit. Names that CUDA does
 * not have all begin with simt_. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* A file that includes cuda_runtime.h itself must not get NVIDIA's declarations of the variables below. */
#define __DEVICE_LAUNCH_PARAMETERS_H__

/* ---- CUDA's keywords ---- */
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#undef __align__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

/* Marks functions of tests/simt: their memory accesses do not count as a kernel's. */
#ifdef SIMT_CHECK
#define SIMT_MACHINE __attribute__((noinline, no_sanitize("thread")))
#else
#define SIMT_MACHINE
#endif

/* ---- the running thread. One OS thread runs all threads in turn, so these are plain variables ---- */
extern "C" {
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
}
constexpr int warpSize = 32;

#include "tests/simt/simt_launch.h"
#include "tests/simt/simt_barrier.h"
#include "tests/simt/simt_warp.h"
#include "tests/simt/simt_atomic.h"
#include "tests/simt/simt_math.h"
#include "tests/simt/simt_types.h"
#include "tests/simt/simt_wmma.h"
