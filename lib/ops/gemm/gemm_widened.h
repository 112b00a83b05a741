/* What gemm_packed.h multiplies after packing has widened it to fp32. The file that includes this defines `widen` and
 * `narrow` after it, and then includes gemm_packed.h. */
#pragma once

#include "lib/device/dtype.h"
#include <stdint.h>

#define WIDENS 1
typedef float number;
typedef uint16_t stored;
typedef float unit;
enum { PER_UNIT = 1 };
#include "lib/ops/gemm/gemm_vector.h"

typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef uint16_t loose_halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

INLINE vec widen(const stored *);   /* LANES numbers */
INLINE vec multiply_add(vec sum, unit a, vec b) { return sum + a * b; }
INLINE vec units(const stored *x) { return widen(x); }
INLINE vec unit_rows(const stored *x, int64_t stride) { return (void)stride, widen(x); }
