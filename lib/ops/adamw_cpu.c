/* AdamW; see adamw.h. elem is the weight's type; moments, master and arithmetic are real. */
#include "lib/ops/adamw_factors.h"
#include "lib/ops/real.h"

adamw_cpu_kernel CPU(adamw);

#if defined ELEM_fp64
#define FMA __builtin_fma
#define SQRT __builtin_sqrt
#else
#define FMA __builtin_fmaf
#define SQRT __builtin_sqrtf
#endif

enum { PIECE = 1024 };   /* elements that a thread takes at a time */

struct factors { real grad, keep, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, denominator, eps; };

static struct factors rounded(const struct adamw_factors *f, double grad_multiplier, bool decay) {
    return (struct factors){(real)grad_multiplier, (real)f->keep[decay], (real)f->beta1, (real)f->one_minus_beta1,
                            (real)f->beta2, (real)f->one_minus_beta2, (real)f->step_size, (real)f->denominator,
                            (real)f->eps};
}

/* Every sum here is an explicit fused multiply-add, and no product meets a plain + or -: were there one, the compiler
 * might fuse it in the vector loop and not in the remainder, and an element's bits would depend on its place. */
static inline real update(const struct factors *f, real w, real grad, real *m, real *v) {
    real g = f->grad * grad;
    *m = FMA(f->beta1, *m, f->one_minus_beta1 * g);
    *v = FMA(f->beta2, *v, f->one_minus_beta2 * g * g);
    real denominator = FMA(SQRT(*v), f->denominator, f->eps);
    return FMA(-f->step_size, *m / denominator, f->keep * w);
}

/* Elements first .. first + n-1. */
static void piece(const struct factors *f, const struct adamw_elements *e, int64_t first, int64_t n) {
    real widened[PIECE], *m = (real *)e->m + first, *v = (real *)e->v + first;
    elem *weight = (elem *)e->weight + first;
    real *master = e->master ? (real *)e->master + first : NULL;
    const char *from = (const char *)e->grad + first * (int64_t)dtype_size(e->grad_dtype);
    const real *grad = e->grad_dtype == REAL_DTYPE ? (const real *)from : widened;
    if (grad == widened) dtype_convert(widened, REAL_DTYPE, from, e->grad_dtype, n);
    if (master)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            master[i] = update(f, master[i], grad[i], m + i, v + i);
            weight[i] = store(master[i]);
        }
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++) weight[i] = store(update(f, load(weight[i]), grad[i], m + i, v + i));
}

void CPU(adamw)(const struct adamw_factors *factors, double grad_multiplier, const struct adamw_elements *e) {
    struct factors f = rounded(factors, grad_multiplier, e->decay);
#pragma omp parallel for
    for (int64_t first = 0; first < e->n; first += PIECE) {
        int64_t left = e->n - first;
        piece(&f, e, first, left < PIECE ? left : PIECE);
    }
}
