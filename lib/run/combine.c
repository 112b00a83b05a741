#include "lib/run/combine.h"

/* Is the gradient partial along this axis? It is summed already over all replicas, or over those that share shards. */
static bool is_partial(const struct param *w, enum mesh_axis axis) {
    if (w->summed >> axis & 1) return false;                         /* sums.h */
    unsigned left = (w->reduce & ~(1u << param_replicas(w))) | 1u << w->replicate_axis;
    return w->present && w->own_n > 0 && left >> axis & 1;
}

static enum status combine_over(struct run *r, enum mesh_axis axis) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (is_partial(w, axis))
            TRY(comm_all_reduce_start(r->mesh.group[axis], param_own_grad(w), w->own_n, w->grad_type.dtype, COMM_SUM,
                                      &r->combining[i]));
    }
    for (int i = 0; i < r->program.n_params; i++) TRY(comm_wait(&r->combining[i]));
    return OK;
}

enum status combine_gradients(struct run *r) {
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < AXIS_MESH; axis++) TRY(combine_over(r, axis));
    return OK;
}

void combine_bill(const struct program *p, struct bill *bill) {
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < AXIS_MESH; axis++)
        for (int i = 0; i < p->n_params; i++) {
            const struct param *w = &p->params[i];
            if (is_partial(w, axis))
                bill_exchange(bill, &p->place, (struct exchange){.axis = axis, .op = COMM_ALL_REDUCE, .count = w->own_n,
                                                                 .dtype = w->grad_type.dtype, .when = AT_END});
        }
}
