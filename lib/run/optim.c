/* Gradient norm, clipping and the update. Each rank works on its own elements, so this code names no technique.
 *
 *   norm^2 = sum over the mesh of sum over counted params of g^2      one rank counts each element of the model;
 *            if replicas differ, the sum is over one replica (run.norm_axis)
 *   factor = min(1, clip / (norm + 1e-6))
 *
 * The device that has the gradients computes all three. On a GPU the host never reads the norm, so the update is queued
 * after backward without a wait. (Gradients that zero offloads are summed in host memory.) The price: a number that is
 * not finite cannot stop the host at once. optimizer_decide makes the multiplier NaN, with which optimizer_update
 * changes nothing; the host reads the numbers later, and fails then. */
#include "lib/run/run.h"

#include "lib/ops/reduce.h"
#include "lib/run/optim_offload.h"
#include <stdlib.h>

static bool is_in_norm(const struct param *w) { return w->in_norm && !(w->optimizer && w->optimizer->apart); }

/* List the own gradients in `buffers`, which has room for every param. @return their number */
static int own_gradients(const struct run *r, bool counted_only, struct reduce_buffer *buffers) {
    int n = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (param_is_dense(w) && param_is_stored(w) && w->own_n > 0 && (is_in_norm(w) || !counted_only))
            buffers[n++] = (struct reduce_buffer){param_own_grad(w), w->grad_type.dtype, w->own_n};
    }
    return n;
}

typedef enum status reduction(const struct device *, const struct reduce_buffer *, int n, double *out, void *work);

/* Reduce the own gradients, in place. `result` is on the device. */
static enum status reduce_own(struct run *r, reduction *reduce, bool counted_only, double *result) {
    const struct device *d = run_grad_device(r);
    struct reduce_buffer *buffers = malloc(((size_t)r->program.n_params + 1) * sizeof *buffers);
    double there;
    if (!buffers) return FAIL(E_MEMORY, "no memory for a table of %d gradients", r->program.n_params);
    int n = own_gradients(r, counted_only, buffers);
    enum status status = reduce(d, buffers, n, d == r->device ? result : &there, r->reduce_work);
    if (status == OK && d != r->device) status = comm_wait_queued(r->device, "the gradients");
    if (status == OK && d != r->device) status = r->device->upload(r->device, result, &there, sizeof there);
    free(buffers);
    return status;
}

enum status optim_squares(struct run *r) {
    TRY(reduce_own(r, reduce_sum_of_squares, true, &run_scalars(r)[SCALAR_SQUARES]));
    return run_emit(r, EVENT_GRAD_SQUARES);
}

void optim_exact_squares(struct run *r, double numbers[EXACT_NUMBERS]) {
    struct exact sum = {.n_added = 0};
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (param_is_stored(w) && w->own_n > 0 && is_in_norm(w)) exact_add_squares(&sum, param_own_grad(w), w->own_n);
    }
    exact_numbers(&sum, numbers);
}

enum status optim_non_finite(struct run *r, bool *found) {
    const struct reduce_buffer losses = {&run_scalars(r)[SCALAR_LOSS], FP64, 1 + SUM_AUX_LOSS};
    double *overflow = &run_scalars(r)[SCALAR_OVERFLOW], *in_loss = &run_scalars(r)[SCALAR_LOSS_OVERFLOW];
    TRY(reduce_own(r, reduce_non_finite, false, overflow));
    TRY(reduce_non_finite(r->device, &losses, 1, in_loss, r->reduce_work));
    TRY(reduce_add(r->device, overflow, in_loss, FP64));
    /* Each element is one rank's own, so the maximum covers all elements, and every rank gets it. */
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], &run_scalars(r)[SCALAR_OVERFLOW], 1, FP64, COMM_MAX));
    double count;
    TRY(run_read_scalar(r, &run_scalars(r)[SCALAR_OVERFLOW], &count));
    *found = count != 0;
    return OK;
}

double optim_clip_factor(double norm, double clip) {
    double factor = clip / (norm + 1e-6);
    return clip > 0 && factor < 1 ? factor : 1;
}

struct optimizer_settings optim_settings(const struct plan *p, double lr, int64_t step, const double *multiplier) {
    return (struct optimizer_settings){.lr = lr, .weight_decay = p->weight_decay, .beta1 = p->beta1,
                                       .beta2 = p->beta2, .eps = p->eps, .momentum = p->momentum,
                                       .grad_multiplier = multiplier, .step = step};
}

static enum status update_on_device(struct run *r, const struct optimizer_settings *a) {
    struct optimizer_elements *table = malloc(((size_t)r->program.n_params + 1) * sizeof *table);
    int n = 0;
    if (!table) return FAIL(E_MEMORY, "no memory for a table of %d params", r->program.n_params);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (param_is_dense(w) && param_is_stored(w) && w->own_n > 0 && !optim_is_offloaded(&r->program, w))
            table[n++] = param_elements(w);
    }
    enum status status = optimizer_update(r->program.optimizer, r->device, a, table, n);
    free(table);
    return status;
}

enum status optim_step(struct run *r, const struct step_record *s) {
    const struct optimizer_settings a = optim_settings(&r->plan, s->result.lr, s->n_update + 1,
                                                       &s->on_device[SCALAR_MULTIPLIER]);
    TRY(update_on_device(r, &a));
    return optim_offload_update(r, &a);
}
