#include "lib/ops/adamw_factors.h"
#include "lib/ops/kernels.h"
#include <math.h>

adamw_cpu_kernel adamw_cpu_fp64, adamw_cpu_fp32, adamw_cpu_bf16, adamw_cpu_fp16;
adamw_cuda_launcher adamw_cuda_fp64, adamw_cuda_fp32, adamw_cuda_bf16, adamw_cuda_fp16;

static struct adamw_factors factors_of(const struct adamw *a) {
    double t = (double)a->step;
    return (struct adamw_factors){
        .keep = {1, 1 - a->lr * a->weight_decay},
        .beta1 = a->beta1,
        .one_minus_beta1 = 1 - a->beta1,
        .beta2 = a->beta2,
        .one_minus_beta2 = 1 - a->beta2,
        .step_size = a->lr / (1 - pow(a->beta1, t)),
        .denominator = 1 / sqrt(1 - pow(a->beta2, t)),
        .eps = a->eps,
    };
}

/* ---- the update ---- */

static bool is_floating(enum dtype d) { return d == FP64 || d == FP32 || d == BF16 || d == FP16; }

static enum status check(const struct adamw_elements *e, int n) {
    for (int i = 0; i < n; i++)
        if (!is_floating(e[i].weight_dtype) || !is_floating(e[i].grad_dtype))
            return FAIL(E_CONFIG, "adamw has no kernel for %s weights with %s gradients; use fp64, fp32, bf16 or fp16",
                        dtype_name(e[i].weight_dtype), dtype_name(e[i].grad_dtype));
    return OK;
}

static enum status update_cpu(const struct adamw_factors *f, double multiplier, const struct adamw_elements *e, int n) {
    static adamw_cpu_kernel *const kernels[N_DTYPES] = {
        [FP64] = adamw_cpu_fp64, [FP32] = adamw_cpu_fp32, [BF16] = adamw_cpu_bf16, [FP16] = adamw_cpu_fp16};
    if (isnan(multiplier)) return OK;
    for (int i = 0; i < n; i++) kernels[e[i].weight_dtype](f, multiplier, &e[i]);
    return OK;
}

/* Each launcher takes its own dtype out of the list. */
static enum status update_cuda(const struct device *device, const struct adamw_factors *f, const double *multiplier,
                               const struct adamw_elements *e, int n) {
    static adamw_cuda_launcher *const launchers[] = {
        WITH_CUDA(adamw_cuda_fp64, adamw_cuda_fp32, adamw_cuda_bf16, adamw_cuda_fp16,) NULL};
    for (int i = 0; launchers[i]; i++) TRY(launchers[i](device->stream, f, multiplier, e, n));
    return OK;
}

enum status adamw_update(const struct device *device, const struct adamw *a, const struct adamw_elements *e, int n) {
    struct adamw_factors f = factors_of(a);
    TRY(check(e, n));
    if (device->kind == DEVICE_CPU) return update_cpu(&f, *a->grad_multiplier, e, n);
    return update_cuda(device, &f, a->grad_multiplier, e, n);
}

/* ---- the decision ---- */

/* volatile: rounded here, or the compiler might fuse the product with + 1e-6, and the factor not be that of the
 * norm. */
static enum status decide_cpu(double *multiplier, double *norm, const double *sum_of_squares, const double *loss,
                              double clip, double unscale) {
    volatile double rounded = sqrt(*sum_of_squares) * fabs(unscale);
    double length = rounded, factor = clip / (length + 1e-6);
    bool usable = isfinite(length) && (!loss || isfinite(*loss));
    *norm = length;
    *multiplier = usable ? (clip > 0 && factor < 1 ? factor : 1) * unscale : (double)NAN;
    return OK;
}

enum status adamw_decide(const struct device *device, double *multiplier, double *norm, const double *sum_of_squares,
                         const double *loss, double clip, double unscale) {
    WITH_CUDA(if (device->kind == DEVICE_CUDA)
                  return adamw_decide_cuda(device->stream, multiplier, norm, sum_of_squares, loss, clip, unscale);)
    (void)device;
    return decide_cpu(multiplier, norm, sum_of_squares, loss, clip, unscale);
}
