/* AdamW; see adamw.c. */
#include "lib/ops/optimizer_cpu.h"
#include "lib/ops/optimizer_factors.h"

optimizer_cpu_kernel CPU(adamw);

static inline real update(const real *x, real decay, real w, real g, real *state) {
    real *m = &state[0], *v = &state[1];
    *m = FMA(x[BETA1], *m, x[ONE_MINUS_BETA1] * g);
    *v = FMA(x[BETA2], *v, x[ONE_MINUS_BETA2] * g * g);
    real denominator = FMA(SQRT(*v), x[DENOMINATOR], x[EPS]);
    return FMA(-x[STEP_SIZE], *m / denominator, decay * w);
}

void CPU(adamw)(const struct optimizer_factors *f, double grad_multiplier, const struct optimizer_elements *e) {
    const struct factors x = rounded(f, grad_multiplier, e->decay);
#pragma omp parallel for
    for (int64_t first = 0; first < e->n; first += PIECE) update_piece(&x, e, first, 2);
}
