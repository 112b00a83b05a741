#include "lib/ops/gemm/gemm_fp32.h"

#define WIDENS 0
typedef float number, stored;
typedef float unit;
enum { PER_UNIT = 1 };
#include "lib/ops/gemm/gemm_vector.h"

INLINE number number_of(stored x) { return x; }
INLINE vec multiply_add(vec sum, unit a, vec b) { return sum + a * b; }
INLINE vec units(const stored *x) { return load(x); }
INLINE vec unit_rows(const stored *x, int64_t stride) { return (void)stride, load(x); }
INLINE vec widen(const stored *x) { return load(x); }
INLINE void narrow(stored *to, vec x) { store(to, x); }
#include "lib/ops/gemm/gemm_packed.h"

int64_t gemm_fp32_work(const struct gemm *g) { return (int64_t)sizeof(number) * work_numbers(g, 1); }

void gemm_fp32_run(const struct gemm *g, const float *a, int64_t lda, const float *b, int64_t ldb, const float *bias,
                   float *c, int64_t ldc, void *work) {
    product(g, a, lda, b, ldb, bias, c, ldc, work);
}
