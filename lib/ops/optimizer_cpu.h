/* The loops of every optimizer on the CPU. elem is the weight's type; states, master and arithmetic are real. Only
 * *_cpu.c files include this. Each defines the formula for one element (update), and calls update_piece in a loop. */
#pragma once

#include "lib/ops/optimizer.h"
#include "lib/ops/real.h"

#if defined ELEM_fp64
#define FMA __builtin_fma
#define SQRT __builtin_sqrt
#else
#define FMA __builtin_fmaf
#define SQRT __builtin_sqrtf
#endif

enum { PIECE = 1024 };   /* elements that a thread takes at a time */

/* The factors of one set of elements, rounded to real. scale: grad_multiplier. */
struct factors { real scale, decay, x[OPTIMIZER_FACTORS]; };

static inline struct factors rounded(const struct optimizer_factors *f, double grad_multiplier, bool decay) {
    struct factors r = {(real)grad_multiplier, (real)f->decay[decay], {0}};
    for (int k = 0; k < OPTIMIZER_FACTORS; k++) r.x[k] = (real)f->x[k];
    return r;
}

/* Return the new weight. x: the row's factors; decay: the factor of w; g: the gradient times its multiplier; state[k]:
 * this element's states, changed in place. Every sum must be an explicit fused multiply-add. With a plain + or - the
 * compiler might fuse a product in the vector loop but not in its remainder, and an element's bits would depend on its
 * place. */
static inline real update(const real *x, real decay, real w, real g, real *state);

static inline __attribute__((always_inline)) real update_at(const struct factors *f, real w, real grad, int n_states,
                                                            real *const *state, int64_t i) {
    real s[OPTIMIZER_STATES] = {0};
    for (int k = 0; k < n_states; k++) s[k] = state[k][i];
    w = update(f->x, f->decay, w, f->scale * grad, s);
    for (int k = 0; k < n_states; k++) state[k][i] = s[k];
    return w;
}

/* Update elements first .. first + PIECE-1, or up to the last. n_states must be a constant. */
static inline __attribute__((always_inline)) void update_piece(const struct factors *f,
                                                               const struct optimizer_elements *e, int64_t first,
                                                               int n_states) {
    int64_t n = e->n - first < PIECE ? e->n - first : PIECE;
    real widened[PIECE], *state[OPTIMIZER_STATES];
    for (int k = 0; k < n_states; k++) state[k] = (real *)e->state[k] + first;
    elem *weight = (elem *)e->weight + first;
    real *master = e->master ? (real *)e->master + first : NULL;
    const char *from = (const char *)e->grad + first * (int64_t)dtype_size(e->grad_dtype);
    const real *grad = e->grad_dtype == REAL_DTYPE ? (const real *)from : widened;
    if (grad == widened) dtype_convert(widened, REAL_DTYPE, from, e->grad_dtype, n);
    if (master)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            master[i] = update_at(f, master[i], grad[i], n_states, state, i);
            weight[i] = store(master[i]);
        }
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            weight[i] = store(update_at(f, load(weight[i]), grad[i], n_states, state, i));
}
