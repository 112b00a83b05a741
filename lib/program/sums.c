#include "lib/program/sums.h"

#include "lib/base/grow.h"
#include "lib/ops/reduce.h"
#include <stdlib.h>
#include <stdio.h>

/* ---- a tied weight: a gradient for each use ---- */

static int second_gradient(struct program *p, int param) {
    struct param copy = p->params[param];
    int made = program_add_param(p, "", "", copy.type, 0, 0, false);
    copy.gradient_of = 1 + param;
    snprintf(copy.name, sizeof copy.name, "%.34s.head", p->params[param].name);
    p->params[made] = copy;
    return made;
}

void sums_split_uses(struct program *p) {
    bool *used = table_new(p->n_params, sizeof *used);
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_weight; k++) {
            int w = p->steps[i].weight[k];
            if (used[w]) p->steps[i].weight[k] = second_gradient(p, w);
            used[w] = true;
        }
    free(used);
}

enum status sums_add_uses(const struct device *d, const struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (!w->gradient_of || w->own_n == 0) continue;
        TRY(reduce_accumulate(d, param_own_grad(&p->params[w->gradient_of - 1]), param_own_grad(w), w->own_n, FP32));
    }
    return OK;
}

/* ---- microbatches ---- */

static enum status refuse_order(const struct action *a) {
    return FAIL(E_CONFIG,
                "sums=fixed adds neighboring microbatches, and this schedule takes the weight gradients of microbatch "
                "%d after those of one that is no neighbor; use schedule=1f1b, or sums=fast",
                a->microbatch);
}

/* Do a chunk's microbatches run in rising or in falling order? a: the later of two actions. */
static bool is_in_order(const struct action *before, const struct action *a, int *way) {
    int now = a->microbatch - before->microbatch;
    bool ok = (now == 1 || now == -1) && (*way == 0 || *way == now);
    *way = now;
    return ok;
}

static enum status check_order(const struct schedule *s, int chunk, enum tape_kind tape, int *n) {
    const struct action *before = NULL;
    int way = *n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        if (a->chunk != chunk || (int)a->kind != (int)tape) continue;
        if (before && !is_in_order(before, a, &way)) return refuse_order(a);
        before = a;
        ++*n;
    }
    return OK;
}

static const char WAITING[] = "waiting sums";

/* Add the array for partial sums of a gradient that wait for others. It comes after all gradients, because dp sends
 * those as one stretch. */
static enum status add_waiting(struct program *p, int param, int levels) {
    const struct param *w = &p->params[param];
    return program_add_array(p, param, &(struct param_array){
        .name = WAITING, .n = levels * param_waiting_n(w), .dtype = FP32, .role = ROLE_GRAD, .tier = w->grad_tier,
        .copies = levels > 0, .place = BEHIND_PARAMS});
}

static enum status mark_tape(struct program *p, const struct tape *t, int n) {
    for (int i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        if (r->kind != ROW_BACKWARD_WEIGHT) continue;
        const struct call types = program_call(p, &p->steps[r->id]);
        for (int k = 0; k < types.step->n_weight; k++) {
            TRY(add_waiting(p, types.step->weight[k], sums_levels(n)));
            p->params[types.step->weight[k]].summed = sums_over(&types);
        }
    }
    if (n & (n - 1))
        return FAIL(E_CONFIG,
                    "sums=fixed adds by halves, and %d microbatches pass a stage; use a power of two, or sums=fast", n);
    return OK;
}

enum status sums_mark(struct program *p, const struct chunk *chunks, const struct schedule *s) {
    for (int c = 0; c < p->n_chunks; c++)
        for (enum tape_kind t = TAPE_B; t < N_TAPES; t++) {
            int n;
            TRY(check_order(s, c, t, &n));
            TRY(mark_tape(p, &chunks[c].tapes[t], n));
        }
    return OK;
}

static bool shards_gradients(const struct program *p) {
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].grad_residence == RESIDENT_OWN) return true;
    return false;
}

int64_t sums_first_sample(const struct program *p, const struct mesh_place *at, const struct schedule *s,
                          int microbatch, int64_t micro) {
    int64_t dp = at->n.dp, rank = at->rank.dp;
    if (shards_gradients(p)) return schedule_first_sample(microbatch, rank, dp, micro);
    int passing = s->n_microbatches / (s->n_pipes > 1 ? s->n_pipes : 1);       /* those of a pipe are neighbors */
    return ((microbatch / passing * dp + rank) * passing + microbatch % passing) * micro;
}

/* ---- gradients that wait ---- */

enum status sums_push(const struct device *d, const struct param *w, int k, float *sum) {
    const struct param_array *a = param_array(w, WAITING);
    int64_t n = param_waiting_n(w), bytes = n * (int64_t)sizeof *sum;
    float *waiting = a->at;
    int level = 0;
    for (; k >> level & 1; level++) TRY(reduce_accumulate(d, sum, waiting + level * n, n, FP32));
    if (level * n < a->n) return d->copy(d, waiting + level * n, sum, bytes);
    TRY(d->copy(d, w->grad, sum, bytes));
    int64_t whole = param_resident_n(w, w->grad_residence) * (int64_t)sizeof *sum;
    return whole > bytes ? d->clear(d, (char *)w->grad + bytes, whole - bytes) : OK;
}
