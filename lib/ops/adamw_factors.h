/* Between adamw.c and its kernels. */
#ifndef TRIVIUM_OPS_ADAMW_FACTORS_H
#define TRIVIUM_OPS_ADAMW_FACTORS_H

#include "lib/ops/adamw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The factors that are the same for all elements. Worked out once, in double, in one place (another compiler might fuse
 * 1 - lr decay, or not); every kernel rounds them to its own type. */
struct adamw_factors {
    double keep[2];                     /* 1, and 1 - lr weight_decay: by elements->decay */
    double beta1, one_minus_beta1, beta2, one_minus_beta2;
    double step_size, denominator, eps; /* lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
};

/* One set of elements on the CPU. */
typedef void adamw_cpu_kernel(const struct adamw_factors *, double grad_multiplier, const struct adamw_elements *);
/* Those of the n sets whose weights are of the kernel's dtype, on a CUDA device's stream. */
typedef enum status adamw_cuda_launcher(void *stream, const struct adamw_factors *, const double *grad_multiplier,
                                        const struct adamw_elements *, int n);

/* adamw_decide on a CUDA device's stream: multiplier, norm, sum_of_squares and loss as there, one double each. @errors
 * E_DEVICE */
enum status adamw_decide_cuda(void *stream, double *multiplier, double *norm, const double *sum_of_squares,
                              const double *loss, double clip, double unscale);

#ifdef __cplusplus
}
#endif
#endif
