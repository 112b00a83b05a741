#include "lib/ops/gemm/peak.h"

#include "lib/ops/gemm/gemm_narrow.h"
#include <stddef.h>
#include <string.h>

static double measure(enum dtype dtype) {
    const double seconds = 0.02;
    enum gemm_way way = dtype == BF16 ? gemm_narrow_of(BF16)->way : BY_WIDENING;
    return way == BY_AMX   ? rate_of_amx(seconds)
         : way == BY_PAIRS ? rate_of_pairs(seconds)
         : dtype == FP64     ? rate_of_fma_fp64(seconds)
                             : rate_of_fma(seconds);
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
