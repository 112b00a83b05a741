/* A step of AdamW, the noise of a gradient, and the sizes of a run. */
#include "lessons/24-the-optimizer-and-the-batch/batch/batch.h"

#include <math.h>

enum status batch_adamw(const struct adamw *a, int64_t t, bool decay, int64_t n, float *w, float *m, float *v,
                        const float *g) {
    const float keep = (float)(1 - (decay ? a->lr * a->weight_decay : 0)), eps = (float)a->eps;
    const float beta1 = (float)a->beta1, new1 = (float)(1 - a->beta1);
    const float beta2 = (float)a->beta2, new2 = (float)(1 - a->beta2);
    const float rate = (float)(a->lr / (1 - pow(a->beta1, (double)t)));
    const float correction = (float)(1 / sqrt(1 - pow(a->beta2, (double)t)));
    for (int64_t i = 0; i < n; i++) {
        m[i] = fmaf(beta1, m[i], new1 * g[i]);
        v[i] = fmaf(beta2, v[i], new2 * g[i] * g[i]);
        w[i] = fmaf(-rate, m[i] / fmaf(sqrtf(v[i]), correction, eps), keep * w[i]);
    }
    return OK;
}

enum status batch_noise(struct measured few, struct measured many, double *gradient, double *noise, double *scale) {
    *gradient = (many.batch * many.square - few.batch * few.square) / (many.batch - few.batch);
    *noise = (few.square - many.square) / (1 / few.batch - 1 / many.batch);
    *scale = *noise / *gradient;
    return *gradient > 0 ? OK : FAIL(E_DATA, "the squared gradient comes out as %g; take more steps", *gradient);
}

enum status batch_critical(struct taken small, struct taken large, double *least, double *critical) {
    double product = (small.steps - large.steps) / (1 / small.batch - 1 / large.batch);
    *least = small.steps - product / small.batch;
    *critical = product / *least;
    return *least > 0 && *critical > 0 ? OK : FAIL(E_DATA, "the least number of steps comes out as %g", *least);
}

enum status batch_flops(double days, double ranks, double peak, double mfu, double *flops) {
    *flops = days * 86400 * ranks * peak * mfu;
    return OK;
}

enum status batch_sizes(const struct law *law, double flops, double *params, double *tokens) {
    double both = law->alpha + law->beta, product = flops / 6;
    *params = pow(law->alpha * law->a / (law->beta * law->b), 1 / both) * pow(product, law->beta / both);
    *tokens = product / *params;
    return OK;
}
