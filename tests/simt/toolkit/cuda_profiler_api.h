/* Marks for NVIDIA's profilers: nothing to mark here. */
#ifndef TRIVIUM_TOOLKIT_CUDA_PROFILER_API_H
#define TRIVIUM_TOOLKIT_CUDA_PROFILER_API_H
#include "cuda_runtime_api.h"
static inline cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
static inline cudaError_t cudaProfilerStop(void) { return cudaSuccess; }
#endif
