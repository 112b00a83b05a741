#include "lib/ops/adamw.h"

typedef void adamw_kernel(const struct adamw *, const struct adamw_elements *);
adamw_kernel adamw_cpu_fp64, adamw_cpu_fp32, adamw_cpu_bf16, adamw_cpu_fp16;

enum status adamw_update(const struct adamw *a, const struct adamw_elements *e) {
    static adamw_kernel *const kernels[N_DTYPES] = {
        [FP64] = adamw_cpu_fp64, [FP32] = adamw_cpu_fp32, [BF16] = adamw_cpu_bf16, [FP16] = adamw_cpu_fp16};
    if (!kernels[e->weight_dtype] || !kernels[e->grad_dtype])
        return FAIL(E_CONFIG, "adamw has no kernel for %s weights with %s gradients; use fp64, fp32, bf16 or fp16",
                    dtype_name(e->weight_dtype), dtype_name(e->grad_dtype));
    kernels[e->weight_dtype](a, e);
    return OK;
}
