/* Vectors of fp32, or of units of 32 bits, on this machine; for gemm_micro_kernel.h. Included after `number` is
 * defined. */
#pragma once

#include "lib/ops/gemm/transpose.h"
#include "lib/ops/vector.h"
#include <stdint.h>

enum { LANES = VECTOR_BYTES / 4 };

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes __attribute__((vector_size(4 * LANES)));
/* A vector at any address of a number. */
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(_Alignof(number)), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const void *x) { return *(const loose_vec *)x; }
INLINE void store(void *to, vec x) { *(loose_vec *)to = x; }
