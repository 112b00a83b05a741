/* What offload moves in a step, on a GPU (lib/run/optim_offload.c, zero/zero.c). On a CPU the host's memory is the
 * device's, and nothing moves.
 *
 *   link   a rank's own gradients down and own weights up; where no master copy is kept, the weights down first.
 *          Weights that live in host memory (offload=params) go up each time that a block's are gathered instead
 *   host   AdamW there: what it reads and writes of the host's memory
 *
 * Nothing hides either: the copies are queued between the rows, and the host waits for the gradients (what breaks, in
 * optim_offload.c). Source: Ren et al. 2021, "ZeRO-Offload", section 4. */
#include "planner/price_stage.h"

static bool is_host_s(const struct run *r, const struct param *w) {
    return w->present && !w->cache && w->state_tier != TIER_DEVICE && r->plan.device == PLAN_DEVICE_CUDA;
}

static double update_link_bytes(const struct param *w) {
    double weight = (double)dtype_size(w->type.dtype), gradient = (double)dtype_size(w->grad_type.dtype);
    double weights = w->weight_tier != TIER_DEVICE ? 0 : w->master ? weight : 2 * weight;
    return (double)w->own_n * (gradient + weights);
}

static double update_host_bytes(const struct param *w) {
    double state = (double)dtype_size(w->state_dtype), gradient = (double)dtype_size(w->grad_type.dtype);
    return (double)w->own_n * (6 * state + gradient + (w->master ? (double)dtype_size(w->type.dtype) : 0));
}

struct price_offload price_offload(const struct run *r) {
    struct price_offload out = {0};
    const struct program *p = &r->program;
    struct row_walk at = {0};
    for (int i = 0; i < p->n_params; i++)
        if (is_host_s(r, &p->params[i])) {
            out.link_bytes += update_link_bytes(&p->params[i]);
            out.host_bytes += update_host_bytes(&p->params[i]);
        }
    for (const struct row *row; (row = schedule_next_row(&r->schedule, r->chunks, &at));) {
        const struct param *w = row->kind == ROW_PARAM_AHEAD ? &p->params[row->id] : NULL;
        if (w && w->weight_tier != TIER_DEVICE && is_host_s(r, w))
            out.link_bytes += (double)w->shard_n * (double)dtype_size(w->type.dtype);
    }
    return out;
}
