/* bf16, widened while it is packed. */
#include "lib/ops/gemm/gemm_widened.h"

INLINE number number_of(stored x) { return bf16_to_float(x); }
INLINE vec widen(const stored *x) {
    return (vec)(__builtin_convertvector(*(const loose_halves *)x, words) << 16);
}
INLINE void narrow(stored *to, vec x) {
    words bits = (words)x, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
    words is_nan = (words)((bits & 0x7fffffff) > 0x7f800000);
    *(loose_halves *)to = __builtin_convertvector((nan & is_nan) | (rounded & ~is_nan), halves);
}
#include "lib/ops/gemm/gemm_packed.h"
#include "lib/ops/gemm/gemm_narrow_product.h"

static bool can(void) { return true; }
const struct gemm_narrow gemm_widened_bf16 = {BY_WIDENING, work, run, can};
