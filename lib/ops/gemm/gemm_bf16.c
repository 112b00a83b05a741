#include "lib/ops/gemm/gemm_bf16.h"

#ifdef __AVX512BF16__

#include <immintrin.h>

typedef uint16_t number;
typedef uint32_t unit;
enum { PER_UNIT = 2 };
#include "lib/ops/gemm/gemm_vector.h"
#ifdef __AMX_BF16__
#define GEMM_AMX
#endif

INLINE __m256i sixteen(const number *x) { return _mm256_loadu_si256((const __m256i_u *)x); }
INLINE vec above(__m256i x) { return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16); }

INLINE vec multiply_add(vec sum, unit a, vec b) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}
INLINE vec unit_rows(const number *x, int64_t stride) {
    return (vec)_mm512_or_si512(_mm512_cvtepu16_epi32(sixteen(x)), (__m512i)above(sixteen(x + stride)));
}
INLINE vec widen(const number *x) { return above(sixteen(x)); }
INLINE void narrow(number *to, vec x) { _mm256_storeu_si256((__m256i_u *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x)); }
#include "lib/ops/gemm/gemm_packed.h"

/* Linux lets a process use AMX's registers after one request: a switch of threads then saves 8 KB more. */
#ifdef GEMM_AMX
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool granted;
static void ask_for_amx(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    granted = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
bool gemm_bf16_is_fast(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_amx);
    return granted;
}
#else
bool gemm_bf16_is_fast(void) { return true; }
#endif

bool gemm_bf16_can(const struct gemm *g) { return g->ab_dtype == BF16 && gemm_bf16_is_fast(); }

int64_t gemm_bf16_work(const struct gemm *g, int n_threads) {
    return gemm_bf16_can(g) ? (int64_t)sizeof(number) * work_numbers(g, n_threads) : 0;
}

void gemm_bf16_run(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *work) {
    product(g, a, gemm_lda(g), b, gemm_ldb(g), bias, c, g->n, work);
}

#else

bool gemm_bf16_is_fast(void) { return false; }
bool gemm_bf16_can(const struct gemm *g) { return (void)g, false; }
int64_t gemm_bf16_work(const struct gemm *g, int n_threads) { return (void)g, (void)n_threads, 0; }
void gemm_bf16_run(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *work) {
    (void)g, (void)a, (void)b, (void)bias, (void)c, (void)work;
}

#endif
