#include "lib/run/peak.h"

#include "lib/base/clock.h"
#include "lib/ops/vector.h"
#include <stddef.h>
#include <string.h>
#ifdef __AVX512BF16__
#include "lib/ops/gemm/gemm_bf16.h"
#include <immintrin.h>
#endif

/* Independent chains of FMAs. There are enough chains to hide the latency (4 cycles on two units, or on NEON four). All
 * chains and the two factors fit into registers, because chains in memory would time the stack. */
typedef float vec_f __attribute__((vector_size(VECTOR_BYTES)));
typedef double vec_d __attribute__((vector_size(VECTOR_BYTES)));
enum { CHAINS = VECTOR_REGISTERS == 32 ? 16 : 12, ROUNDS = 20000, LANES_F = VECTOR_BYTES / 4,
       LANES_D = VECTOR_BYTES / 8 };

static volatile double sink;   /* stores the results, so that the compiler keeps the loops */

#define TIME(name, vec)                                                                                                \
    static double name(void) {                                                                                         \
        vec x[CHAINS], a = {0}, b = {0};                                                                               \
        a += 0.999f;                                                                                                   \
        b += 0.001f;                                                                                                   \
        for (int c = 0; c < CHAINS; c++) x[c] = a * (float)c;                                                          \
        double start = clock_s();                                                                                      \
        for (int i = 0; i < ROUNDS; i++)                                                                               \
            _Pragma("GCC unroll 16") for (int c = 0; c < CHAINS; c++) x[c] = x[c] * a + b;                             \
        double seconds = clock_s() - start;                                                                            \
        for (int c = 0; c < CHAINS; c++) sink += x[c][0];                                                              \
        return seconds;                                                                                                \
    }
TIME(time_fp32, vec_f)
TIME(time_fp64, vec_d)

/* The instruction of bf16 products: multiply pairs of bf16 and add them to a sum in fp32. With AMX there are four
 * chains of 16 x 16 sums of 16 pairs. */
#if defined __AMX_BF16__
enum { LANES_B = 2048 };
static double time_bf16(void) {
    static const struct { uint8_t palette, none[15]; uint16_t row_bytes[16]; uint8_t rows[16]; } shapes = {
        1, {0}, {64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16}};
    if (!gemm_bf16_is_fast()) return time_fp32() * LANES_B / LANES_F;
    _tile_loadconfig(&shapes);
    double start = clock_s();                        /* all registers are zero now */
    for (int i = 0; i < ROUNDS; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    double seconds = clock_s() - start;
    _tile_release();
    return seconds;
}
#elif defined __AVX512BF16__
enum { LANES_B = 32 };
static double time_bf16(void) {
    __m512 x[CHAINS];
    __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
    __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1e-3f), _mm512_set1_ps(2e-3f));
    for (int c = 0; c < CHAINS; c++) x[c] = _mm512_set1_ps((float)c);
    double start = clock_s();
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 16
        for (int c = 0; c < CHAINS; c++) x[c] = _mm512_dpbf16_ps(x[c], a, b);
    double seconds = clock_s() - start;
    for (int c = 0; c < CHAINS; c++) sink += x[c][0];
    return seconds;
}
#else
enum { LANES_B = LANES_F };
static double time_bf16(void) { return time_fp32(); }
#endif

static double measure(enum dtype dtype) {
    double best = 1e30, lanes = dtype == FP64 ? LANES_D : dtype == BF16 ? LANES_B : LANES_F;
    for (double end = clock_s() + 0.02; clock_s() < end;) {
        double seconds = dtype == FP64 ? time_fp64() : dtype == BF16 ? time_bf16() : time_fp32();
        if (seconds < best) best = seconds;
    }
    return 2.0 * lanes * CHAINS * ROUNDS / best;
}

double peak_flops_per_core(enum dtype dtype) {
    static double found[N_DTYPES];
    if (found[dtype] == 0) found[dtype] = measure(dtype);
    return found[dtype];
}

double peak_flops_of_gpu(const char *name, enum dtype dtype) {
    /* Dense TFLOP/s of the SXM or largest form: bf16 and fp16 on tensor cores; fp32; fp64, on tensor cores if they
     * support it. */
    static const struct { const char *name; double bits16, fp32, fp64; } gpus[] = {
        {"H200", 989.5, 66.9, 66.9}, {"H100 PCIe", 756, 51, 51}, {"H100", 989.5, 66.9, 66.9},
        {"GH200", 989.5, 66.9, 66.9},
        {"B200", 2250, 75, 37},      {"A100", 312, 19.5, 19.5},  {"L40S", 362, 91.6, 1.4},    {"L4", 121, 30.3, 0.47},
        {"A10G", 70, 31.2, 0.49},    {"V100", 125, 15.7, 7.8},   {"RTX 4090", 165, 82.6, 1.3},
        {"RTX 3090", 71, 35.6, 0.56},
    };
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (strstr(name, gpus[i].name))
            return 1e12 * (dtype == FP64 ? gpus[i].fp64 : dtype == FP32 ? gpus[i].fp32 : gpus[i].bits16);
    return 0;
}
