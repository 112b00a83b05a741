#include "lib/ops/gemm/gemm_narrow.h"

#include "lib/ops/gemm/peak.h"
#include <pthread.h>

/* Processors multiply pairs at 0.5, 1 or 2 times the rate of fp32. The line is between the last two: a measurement that
 * is off by a third still decides the same, so every process of a machine sums in the same order. */
static const double FASTER = 1.4, SECONDS = 0.003;

static enum gemm_way of_bf16;

enum gemm_way gemm_way_of_rates(double fma, double pairs, bool amx) {
    return amx ? BY_AMX : pairs > FASTER * fma ? BY_PAIRS : BY_WIDENING;
}

static void choose(void) {
    bool amx = gemm_amx.can(), asks = !amx && gemm_pairs.can();
    of_bf16 = gemm_way_of_rates(asks ? rate_of_fma(SECONDS) : 0, asks ? rate_of_pairs(SECONDS) : 0, amx);
}

const struct gemm_narrow *gemm_narrow_of(enum dtype ab_dtype) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (ab_dtype == FP16) return &gemm_widened_fp16;
    pthread_once(&once, choose);
    return of_bf16 == BY_AMX ? &gemm_amx : of_bf16 == BY_PAIRS ? &gemm_pairs : &gemm_widened_bf16;
}

bool gemm_bf16_pairs(void) { return gemm_narrow_of(BF16)->way != BY_WIDENING; }
