/* A step of AdamW, the noise of a gradient, and the sizes of a run. batch.h has each function's contract. */
#include "lessons/24-the-optimizer-and-the-batch/batch/batch.h"

#include <math.h>

enum status batch_adamw(const struct adamw *a, int64_t t, bool decay, int64_t n, float *w, float *m, float *v,
                        const float *g) {
    /* First both moments, then their corrections, then the step. Which of them sees the decay? */
    (void)a, (void)t, (void)decay, (void)n, (void)w, (void)m, (void)v, (void)g;
    return FAIL(E_TODO, "batch_adamw is still to be written");
}

enum status batch_noise(struct measured few, struct measured many, double *gradient, double *noise, double *scale) {
    /* Two equations, square = gradient + noise / batch, for two unknowns. */
    (void)few, (void)many, (void)gradient, (void)noise, (void)scale;
    return FAIL(E_TODO, "batch_noise is still to be written");
}

enum status batch_critical(struct taken small, struct taken large, double *least, double *critical) {
    /* steps = least (1 + critical / batch) */
    (void)small, (void)large, (void)least, (void)critical;
    return FAIL(E_TODO, "batch_critical is still to be written");
}

enum status batch_flops(double days, double ranks, double peak, double mfu, double *flops) {
    (void)days, (void)ranks, (void)peak, (void)mfu, (void)flops;
    return FAIL(E_TODO, "batch_flops is still to be written");
}

enum status batch_sizes(const struct law *law, double flops, double *params, double *tokens) {
    /* Put tokens = flops / (6 params) into the law, and set the slope to zero. */
    (void)law, (void)flops, (void)params, (void)tokens;
    return FAIL(E_TODO, "batch_sizes is still to be written");
}
