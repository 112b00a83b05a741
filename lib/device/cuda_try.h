/* Calls of CUDA's runtime, in C files that only builds with CUDA have. */
#pragma once

#include "lib/base/status.h"
#include <cuda_runtime_api.h>

/** Returns E_DEVICE, with the call and what the runtime says of it, from the function around it. */
#define CUDA_TRY(call)                                                                                                 \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) return FAIL(E_DEVICE, "%s: %s", #call, cudaGetErrorString(error_));                 \
    } while (0)
