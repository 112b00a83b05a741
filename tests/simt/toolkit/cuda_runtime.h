/* CUDA's C++ header: here the interface and the vectors. */
#pragma once
#include "cuda_runtime_api.h"
#include "vector_functions.h"
