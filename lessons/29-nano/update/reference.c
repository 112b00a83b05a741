/* The reference of exercise update: with ZeRO reduce-scatter, AdamW on the own shard, all-gather. */
#include "nano/nano.h"

#include <math.h>
#include <string.h>

double update(struct model *m, const struct states *s, int step) {
    int64_t from = m->shard * grid.d_i, to = from + m->shard, all = m->shard * grid.d;
    model_tie(m);
    if (m->plan->zero)
        dp_reduce_scatter(m->dw, m->shard);
    else
        dp_sum(m->dw, all);
    double norm = sqrt(world_sum(squares(m, from, to))), clip = m->plan->clip, factor = clip / (norm + 1e-6);
    if (clip <= 0 || factor > 1) factor = 1;
    if (m->plan->zero) {
        adamw(m, s, from, to, step, factor);
        dp_all_gather(m->w, m->shard);
    } else
        adamw(m, s, 0, all, step, factor);
    memset(m->dw, 0, sizeof(real) * (size_t)all);
    return norm;
}
