#include "lib/ops/gemm/gemm_fp32.h"


typedef float number;
typedef float unit;
enum { PER_UNIT = 1 };
#include "lib/ops/gemm/gemm_vector.h"

INLINE vec multiply_add(vec sum, unit a, vec b) { return sum + a * b; }
INLINE vec unit_rows(const number *x, int64_t stride) { return (void)stride, load(x); }
INLINE vec widen(const number *x) { return load(x); }
INLINE void narrow(number *to, vec x) { store(to, x); }
#include "lib/ops/gemm/gemm_packed.h"

int64_t gemm_fp32_work(const struct gemm *g) { return (int64_t)sizeof(number) * work_numbers(g, 1); }

void gemm_fp32_run(const struct gemm *g, const float *a, int64_t lda, const float *b, int64_t ldb, const float *bias,
                   float *c, int64_t ldc, void *work) {
    product(g, a, lda, b, ldb, bias, c, ldc, work);
}
