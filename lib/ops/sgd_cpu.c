/* SGD; see sgd.c. */
#include "lib/ops/optimizer_cpu.h"
#include "lib/ops/optimizer_factors.h"

optimizer_cpu_kernel CPU(sgd), CPU(sgd_plain);

/* *b is 0 if no state is kept. */
static inline real update(const real *x, real decay, real w, real g, real *b) {
    if (x[SIGN] != 0) g = g > 0 ? 1 : g < 0 ? -1 : 0;
    *b = FMA(x[MOMENTUM], *b, FMA(decay, w, g));
    return FMA(-x[LR], *b, w);
}

void CPU(sgd)(const struct optimizer_factors *f, double grad_multiplier, const struct optimizer_elements *e) {
    const struct factors x = rounded(f, grad_multiplier, e->decay);
#pragma omp parallel for
    for (int64_t first = 0; first < e->n; first += PIECE) update_piece(&x, e, first, 1);
}

void CPU(sgd_plain)(const struct optimizer_factors *f, double grad_multiplier, const struct optimizer_elements *e) {
    const struct factors x = rounded(f, grad_multiplier, e->decay);
#pragma omp parallel for
    for (int64_t first = 0; first < e->n; first += PIECE) update_piece(&x, e, first, 0);
}
