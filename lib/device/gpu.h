/* Every .cu file includes this header first. One source has two builds:
 *
 *   nvcc   the real GPU code
 *   g++    on a machine with no GPU: the compiler's command line includes tests/simt/simt.h, which declares the same
 *          names and runs blocks and threads on the CPU, with checks that a GPU does not give (docs/simt.md)
 *
 * A kernel launch is written LAUNCHED(kernel, grid, block, shared_bytes, stream, arguments...), which is a status; or
 * LAUNCH(kernel, grid, block, shared_bytes, stream)(arguments...), with gpu_launched("name") after it. Kernels are
 * static; other files call extern "C" launchers. No template may have __shared__ variables. */
#pragma once

#include "lib/base/status.h"
#include <string.h>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define LAUNCH(kernel, grid, block, shared_bytes, stream)                                                              \
    kernel<<<(grid), (block), (shared_bytes), (cudaStream_t)(stream)>>>

/* The block's dynamic shared memory, under a name: SHARED_DYNAMIC(float, row); */
#define SHARED_DYNAMIC(type, name)                                                                                     \
    extern __shared__ __align__(128) unsigned char gpu_dynamic_[];                                                     \
    type *name = (type *)gpu_dynamic_
#endif

/* Call before the first launch with more than 48 KiB of dynamic shared memory: GPU_ALLOW_SHARED(kernel, bytes); */
#define GPU_ALLOW_SHARED(kernel, bytes)                                                                                \
    (void)cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes))

/* A kernel with arguments; the messages name it. */
#define LAUNCHED(kernel, grid, block, shared_bytes, stream, ...)                                                       \
    (LAUNCH(kernel, grid, block, shared_bytes, stream)(__VA_ARGS__), gpu_launched(#kernel))

/** Did the last launch succeed? @errors E_DEVICE naming the kernel and the runtime's message */
static inline enum status gpu_launched(const char *kernel) {
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) return OK;
    return FAIL(E_DEVICE, "kernel %.*s: %s", (int)strcspn(kernel, "<"), kernel, cudaGetErrorString(error));
}
