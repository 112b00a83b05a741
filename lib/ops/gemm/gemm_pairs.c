/* bf16 in pairs, by vectors. */
#include "lib/ops/gemm/gemm_narrow.h"

#ifdef __AVX512BF16__

#include "lib/ops/gemm/gemm_pairs.h"
#include "lib/ops/gemm/gemm_packed.h"
#include "lib/ops/gemm/gemm_narrow_product.h"

static bool can(void) { return true; }
const struct gemm_narrow gemm_pairs = {BY_PAIRS, work, run, can};

#else

static bool can(void) { return false; }
const struct gemm_narrow gemm_pairs = {.way = BY_PAIRS, .can = can};

#endif
