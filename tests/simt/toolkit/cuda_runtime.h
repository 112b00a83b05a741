/* CUDA's C++ header: here the interface and the vectors. */
#ifndef TRIVIUM_TOOLKIT_CUDA_RUNTIME_H
#define TRIVIUM_TOOLKIT_CUDA_RUNTIME_H
#include "cuda_runtime_api.h"
#include "vector_functions.h"
#endif
