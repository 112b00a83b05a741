/* Exercise: the end of a step with ZeRO-1 (lesson 29, "Three lines").
 *
 * This is the end of nano's step without ZeRO: each replica has all moments and updates all weights. Write it with
 * ZeRO-1, for m->plan->zero = 1; with 0 it stays as it is. There are two types, both in nano/nano.h: struct model, and
 * struct states, AdamW's moments m and v.
 *
 *   m->w, m->dw             d shards of m->shard numbers each, one after the other: the weights, and this replica's
 *                           gradients. With ZeRO replica i owns shard i; it has moments of that one alone, and number 0
 *                           of s->m belongs to the shard's first weight
 *   grid.d, grid.d_i        d replicas, and this one, i
 *   model_tie               sums the gradients of the tied embedding over the first and the last stage
 *   dp_sum                  (x, n): replaces x by its sum over the replicas
 *   dp_reduce_scatter       (x, n): x is d shards of n. Shard i becomes its sum; the others have no meaning then
 *   dp_all_gather           (x, n): every replica receives each shard of x from its owner
 *   squares                 (m, from, to): the sum of the squares of dw[from .. to-1]
 *   world_sum               the sum of a number over all ranks: of tensor, data and pipeline parallelism
 *   adamw                   (m, s, from, to, step, factor) updates the weights from .. to-1 with factor times their
 *                           gradients. The moments of weight i are s->m[i - from] and s->v[i - from]
 *
 * TODO 1: what does a rank need of the sums of the gradients, if it updates its shard alone?
 * TODO 2: which weights does it update?
 * TODO 3: what do the other replicas need before the next forward?
 * The norm is over all ranks, and each number counts once: here each rank counts shard i. Is that shard's sum there?
 *
 * Grade a copy in my/ with: make grade LESSON=29 FILE=my/update.c */
#include "nano/nano.h"

#include <math.h>
#include <string.h>

/* Sums the gradients, clips them, updates the weights and clears the gradients. Returns the norm of the whole gradient
 * before it is clipped. */
double update(struct model *m, const struct states *s, int step) {
    int64_t from = m->shard * grid.d_i, to = from + m->shard, all = m->shard * grid.d;
    model_tie(m);
    dp_sum(m->dw, all);
    double norm = sqrt(world_sum(squares(m, from, to))), clip = m->plan->clip, factor = clip / (norm + 1e-6);
    if (clip <= 0 || factor > 1) factor = 1;
    adamw(m, s, 0, all, step, factor);
    memset(m->dw, 0, sizeof(real) * (size_t)all);
    return norm;
}
