#include "lib/ops/gemm/peak.h"

#include "lib/base/clock.h"
#include "lib/ops/vector.h"
#include <stdint.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

/* Independent chains of multiply-adds. There are enough chains to hide the latency (4 cycles on two units, or on NEON
 * four). All chains and the two factors fit into registers, because chains in memory would time the stack. */
typedef float vec_f __attribute__((vector_size(VECTOR_BYTES)));
typedef double vec_d __attribute__((vector_size(VECTOR_BYTES)));
enum { CHAINS = VECTOR_REGISTERS == 32 ? 16 : 12, ROUNDS = 20000 };

static volatile double sink;   /* stores the results, so that the compiler keeps the loops */

#define TIME(name, vec)                                                                                                \
    static double name(void) {                                                                                         \
        vec x[CHAINS], a = {0}, b = {0};                                                                               \
        a += 0.999f;                                                                                                   \
        b += 0.001f;                                                                                                   \
        for (int c = 0; c < CHAINS; c++) x[c] = a * (float)c;                                                          \
        double start = thread_s();                                                                                     \
        for (int i = 0; i < ROUNDS; i++)                                                                               \
            _Pragma("GCC unroll 16") for (int c = 0; c < CHAINS; c++) x[c] = x[c] * a + b;                             \
        double seconds = thread_s() - start;                                                                           \
        for (int c = 0; c < CHAINS; c++) sink += x[c][0];                                                              \
        return seconds;                                                                                                \
    }
TIME(time_fp32, vec_f)
TIME(time_fp64, vec_d)

/* By the thread's own clock: on a full machine a loop may wait longer for a core than it runs, and gemm_narrow.c would
 * choose another order of sums in one process of a job than in the others.
 *
 * The fastest of the loops; each has CHAINS * ROUNDS multiply-adds, each of `numbers` numbers. */
static double rate(double (*loop)(void), double numbers, double seconds) {
    double best = 1e30, end = thread_s() + seconds;
    do {
        double t = loop();
        if (t < best) best = t;
    } while (thread_s() < end);
    return 2 * numbers * CHAINS * ROUNDS / best;
}

double rate_of_fma(double seconds) { return rate(time_fp32, VECTOR_BYTES / 4, seconds); }
double rate_of_fma_fp64(double seconds) { return rate(time_fp64, VECTOR_BYTES / 8, seconds); }

#ifdef __AVX512BF16__
static double time_pairs(void) {
    __m512 x[CHAINS];
    __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
    __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1e-3f), _mm512_set1_ps(2e-3f));
    for (int c = 0; c < CHAINS; c++) x[c] = _mm512_set1_ps((float)c);
    double start = thread_s();
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) x[c] = _mm512_dpbf16_ps(x[c], a, b);
    double seconds = thread_s() - start;
    for (int c = 0; c < CHAINS; c++) sink += x[c][0];
    return seconds;
}
double rate_of_pairs(double seconds) { return rate(time_pairs, 32, seconds); }
#else
double rate_of_pairs(double seconds) { return (void)seconds, 0; }
#endif

#ifdef __AMX_BF16__
/* Four chains of 16 x 16 sums of 16 pairs: as many multiply-adds as CHAINS of 2048 numbers. */
static double time_amx(void) {
    static const struct { uint8_t palette, none[15]; uint16_t row_bytes[16]; uint8_t rows[16]; } shapes = {
        1, {0}, {64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&shapes);
    double start = thread_s();                        /* all registers are zero now */
    for (int i = 0; i < ROUNDS; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    double seconds = thread_s() - start;
    _tile_release();
    return seconds;
}
double rate_of_amx(double seconds) { return rate(time_amx, 2048, seconds); }
#else
double rate_of_amx(double seconds) { return (void)seconds, 0; }
#endif
