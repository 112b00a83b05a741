/* Runs rows of weight gradients with --sums fixed (lib/comm/sums_rows.h), and gives their sums memory. */
#include "lib/program/exec_state.h"

#include "lib/ops/reduce.h"
#include "lib/program/sums.h"

/* Put a sum into a gradient that is a value of the chunk: the first row sets it, and later rows add to it. */
static enum status put(const struct exec *e, struct place at, const struct row *r, const struct call *c, int i,
                       const float *sum) {
    int64_t n = type_n(c->dweight[i].type), of_sum = n * (int64_t)sizeof *sum;
    int64_t bytes = e->chunks[at.chunk].values[r->dweight[i]].bytes;
    char *to = c->dweight[i].data;
    if (!(r->fresh >> i & 1)) return reduce_accumulate(e->device, to, sum, n, FP32);
    TRY(e->device->copy(e->device, to, sum, of_sum));
    return bytes > of_sum ? e->device->clear(e->device, to + of_sum, bytes - of_sum) : OK;
}

enum status exec_weight_sums(const struct exec *e, struct place at, const struct row *r, const struct call *c) {
    float *sum[MAX_WEIGHTS];
    TRY(sums_run(c, e->mesh, sum));
    for (int i = 0; i < c->step->n_weight; i++)
        if (r->dweight[i] == RESIDENT)
            TRY(sums_push(e->device, &e->program->params[c->step->weight[i]], at.action->nth, sum[i]));
        else
            TRY(put(e, at, r, c, i, sum[i]));
    return OK;
}
