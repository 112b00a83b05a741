/* Muon's momentum, scale and step; see muon.h, and muon_cpu.c for the same arithmetic. */
#include "lib/ops/muon.h"
#include "lib/ops/optimizer_cuda.h"

extern "C" { optimizer_cuda_launcher CUDA(muon), CUDA(muon_plain); }

/* *m is 0 if no state is kept. */
__device__ static inline real update(const real *x, real decay, real w, real g, real *m) {
    *m = fma(x[MUON_KEPT], *m, x[MUON_NEW] * g);
    return fma(x[MUON_OF_MOMENTUM], *m, fma(x[MUON_OF_GRAD], g, decay * w));
}

enum status CUDA(muon)(void *stream, const struct optimizer_factors *f, const double *grad_multiplier,
                       const struct optimizer_elements *e, int n) {
    return optimizer_launch<1>(stream, f, grad_multiplier, e, n);
}

enum status CUDA(muon_plain)(void *stream, const struct optimizer_factors *f, const double *grad_multiplier,
                             const struct optimizer_elements *e, int n) {
    return optimizer_launch<0>(stream, f, grad_multiplier, e, n);
}
