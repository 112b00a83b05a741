/* fp16, widened while it is packed. */
#include "lib/ops/gemm/gemm_widened.h"
#if defined __F16C__
#include <immintrin.h>
#endif

INLINE number number_of(stored x) { return fp16_to_float(x); }
INLINE vec widen(const stored *x) {
#if defined __AVX512F__
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)x));
#elif defined __F16C__ && VECTOR_BYTES == 32
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)x));
#else
    vec y;
    for (int l = 0; l < LANES; l++) y[l] = fp16_to_float(x[l]);
    return y;
#endif
}
INLINE void narrow(stored *to, vec x) {
    for (int l = 0; l < LANES; l++) to[l] = fp16_from_float(x[l]);
}
#include "lib/ops/gemm/gemm_packed.h"
#include "lib/ops/gemm/gemm_narrow_product.h"

static bool can(void) { return true; }
const struct gemm_narrow gemm_widened_fp16 = {BY_WIDENING, work, run, can};
