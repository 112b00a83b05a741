/* Checks calls of CUDA's runtime, in C files that are only in builds with CUDA. */
#pragma once

#include "lib/base/status.h"
#include <cuda_runtime_api.h>

/** On failure the calling function returns E_DEVICE, with the call and the runtime's message. */
#define CUDA_TRY(call)                                                                                                 \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) return FAIL(E_DEVICE, "%s: %s", #call, cudaGetErrorString(error_));                 \
    } while (0)
