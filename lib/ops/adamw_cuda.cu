/* AdamW; see adamw.c, and adamw_cpu.c for the same arithmetic. */
#include "lib/ops/optimizer_cuda.h"
#include "lib/ops/optimizer_factors.h"

extern "C" { optimizer_cuda_launcher CUDA(adamw); }

__device__ static inline real update(const real *x, real decay, real w, real g, real *state) {
    real *m = &state[0], *v = &state[1];
    *m = fma(x[BETA1], *m, x[ONE_MINUS_BETA1] * g);
    *v = fma(x[BETA2], *v, x[ONE_MINUS_BETA2] * g * g);
    real denominator = fma((real)sqrt(*v), x[DENOMINATOR], x[EPS]);
    return fma(-x[STEP_SIZE], *m / denominator, decay * w);
}

enum status CUDA(adamw)(void *stream, const struct optimizer_factors *f, const double *grad_multiplier,
                        const struct optimizer_elements *e, int n) {
    return optimizer_launch<2>(stream, f, grad_multiplier, e, n);
}
