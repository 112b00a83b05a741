/* SGD; see sgd.c, and sgd_cpu.c for the same arithmetic. */
#include "lib/ops/optimizer_cuda.h"
#include "lib/ops/optimizer_factors.h"

extern "C" { optimizer_cuda_launcher CUDA(sgd), CUDA(sgd_plain); }

/* *b is 0 if no state is kept. */
__device__ static inline real update(const real *x, real decay, real w, real g, real *b) {
    if (x[SIGN] != 0) g = g > 0 ? 1 : g < 0 ? -1 : 0;
    *b = fma(x[MOMENTUM], *b, fma(decay, w, g));
    return fma(-x[LR], *b, w);
}

enum status CUDA(sgd)(void *stream, const struct optimizer_factors *f, const double *grad_multiplier,
                      const struct optimizer_elements *e, int n) {
    return optimizer_launch<1>(stream, f, grad_multiplier, e, n);
}

enum status CUDA(sgd_plain)(void *stream, const struct optimizer_factors *f, const double *grad_multiplier,
                            const struct optimizer_elements *e, int n) {
    return optimizer_launch<0>(stream, f, grad_multiplier, e, n);
}
