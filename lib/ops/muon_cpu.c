/* Muon's momentum, scale and step; see muon.h. */
#include "lib/ops/muon.h"
#include "lib/ops/optimizer_cpu.h"

optimizer_cpu_kernel CPU(muon), CPU(muon_plain);

/* *m is 0 if no state is kept. */
static inline real update(const real *x, real decay, real w, real g, real *m) {
    *m = FMA(x[MUON_KEPT], *m, x[MUON_NEW] * g);
    return FMA(x[MUON_OF_MOMENTUM], *m, FMA(x[MUON_OF_GRAD], g, decay * w));
}

void CPU(muon)(const struct optimizer_factors *f, double grad_multiplier, const struct optimizer_elements *e) {
    const struct factors x = rounded(f, grad_multiplier, e->decay);
#pragma omp parallel for
    for (int64_t first = 0; first < e->n; first += PIECE) update_piece(&x, e, first, 1);
}

void CPU(muon_plain)(const struct optimizer_factors *f, double grad_multiplier, const struct optimizer_elements *e) {
    const struct factors x = rounded(f, grad_multiplier, e->decay);
#pragma omp parallel for
    for (int64_t first = 0; first < e->n; first += PIECE) update_piece(&x, e, first, 0);
}
