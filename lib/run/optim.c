/* Gradient norm, clipping and AdamW: over own elements only, so that no technique is mentioned.
 *
 *   norm^2 = sum over the mesh of sum over counted params of g^2      each element of the model counted by one rank
 *   factor = min(1, clip / (norm + 1e-6)) */
#include "lib/run/run.h"

#include "lib/ops/adamw.h"
#include "lib/ops/reduce.h"
#include <math.h>

void *param_own_weight(const struct param *w) {
    int64_t first = w->weight_at == RESIDENT_OWN ? 0 : w->own_first;
    return (char *)w->weight + first * (int64_t)dtype_size(w->type.dtype);
}

void *param_own_grad(const struct param *w) {
    int64_t first = w->grad_at == RESIDENT_OWN ? 0 : w->own_first;
    return (char *)w->grad + first * (int64_t)dtype_size(w->grad_type.dtype);
}

enum status optim_norm(struct run *r, double *norm) {
    double sum = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (w->present && w->counted) sum += reduce_sum_of_squares(param_own_grad(w), w->grad_type.dtype, w->own_n);
    }
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], &sum, 1, FP64, COMM_SUM));
    *norm = sqrt(sum) * r->unscale;
    return OK;
}

double optim_clip_factor(double norm, double clip) {
    double factor = clip / (norm + 1e-6);
    return clip > 0 && factor < 1 ? factor : 1;
}

enum status optim_step(struct run *r, double lr, double grad_factor) {
    const struct plan *p = &r->plan;
    struct adamw a = {.lr = lr, .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps, .grad_multiplier = grad_factor,
                      .step = r->n_update + 1};
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->own_n == 0) continue;
        struct adamw_elements e = {w->own_n, param_own_weight(w), w->type.dtype, param_own_grad(w), w->grad_type.dtype,
                                   w->moment1, w->moment2, w->master_weight};
        a.weight_decay = w->decay ? p->weight_decay : 0;
        TRY(adamw_update(&a, &e));
    }
    return OK;
}
