/* The bytes that offload moves in a step, on a GPU (lib/run/optim_offload.c, zero/zero.c). On a CPU the host's memory
 * is the device's, and nothing moves.
 *
 *   link   a rank's own gradients go down and its own weights up; without a master copy, the weights go down
 *          first. Sums of gradients in host memory (stages 2 and 3) go down in each microbatch instead. Weights in host
 *          memory (offload=params) go up each time that their block is gathered
 *   host   the host's reads and writes in the update; and, for gradients in host memory, in the norm and in each sum
 *
 * Nothing hides these times: copies are queued between the rows, and the host waits for the gradients. Source: Ren et
 * al. 2021, "ZeRO-Offload", section 4. */
#include "planner/price_stage.h"

static bool is_host_s(const struct run *r, const struct param *w) {
    return w->present && !w->cache && w->state_tier != TIER_DEVICE && r->plan.device == PLAN_DEVICE_CUDA;
}

static double update_link_bytes(const struct param *w) {
    double weight = (double)dtype_size(w->type.dtype), gradient = (double)dtype_size(w->grad_type.dtype);
    double weights = w->weight_tier != TIER_DEVICE ? 0 : w->master ? weight : 2 * weight;
    return (double)w->own_n * ((w->grad_tier == TIER_DEVICE ? gradient : 0) + weights);
}

static double update_host_bytes(const struct param *w) {
    double state = (double)dtype_size(w->state_dtype), gradient = (double)dtype_size(w->grad_type.dtype);
    double read = (w->grad_tier == TIER_DEVICE ? 1 : 2) * gradient;
    double rounded = w->master ? (double)dtype_size(w->type.dtype) : 0;
    return (double)w->own_n * (2 * (1 + w->optimizer->n_states) * state + read + rounded);
}

struct price_offload price_offload(const struct run *r) {
    struct price_offload out = {0};
    const struct program *p = &r->program;
    struct row_walk at = {0};
    for (int i = 0; i < p->n_params; i++)
        if (is_host_s(r, &p->params[i])) {
            out.link_bytes += update_link_bytes(&p->params[i]);
            out.update_bytes += update_host_bytes(&p->params[i]);
        }
    out.host_bytes = out.update_bytes;
    for (const struct row *row; (row = schedule_next_row(&r->schedule, r->chunks, &at));) {
        bool weight = row->kind == ROW_PARAM_AHEAD, gradient = row->kind == ROW_GRAD_READY;
        const struct param *w = weight || gradient ? &p->params[row->id] : NULL;
        if (!w || !is_host_s(r, w)) continue;
        if (weight && w->weight_tier != TIER_DEVICE)
            out.link_bytes += (double)w->shard_n * (double)dtype_size(w->type.dtype);
        if (!gradient || w->grad_tier == TIER_DEVICE) continue;
        double bytes = (double)w->shard_n * (double)dtype_size(w->grad_type.dtype);
        out.link_bytes += bytes, out.host_bytes += 3 * bytes;
    }
    return out;
}
