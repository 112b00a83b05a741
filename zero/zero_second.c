/* Hierarchical partitioning (hpZ): backward gathers within the node.
 *
 * Idea: stage 3 gathers every weight twice, for forward and for backward, and nothing changes in between. So let the L
 * ranks of a node keep what forward has gathered, each one L-th of it, and gather that for backward.
 *
 *   forward    gather over all n replicas from the shards (1/n)       P (n-1)/n        crosses nodes
 *              keep part k of L of what came: the second shard        P / L bytes, role param
 *   backward   gather over the node from second shards (1/L)          P (L-1)/L        within the node
 *
 * Price: P/L bytes of weights more a rank. Gradients and states stay sharded over all n. That is the difference from
 * hybrid sharding (zero_shards.c), which leaves but one sum between nodes, and shards everything over L only.
 *
 * Which: params that backward gathers, so no biases, which it does not read. A chunk's forward has run before its
 * backward, and has gathered all its params.
 *
 * What breaks: a second shard from before the update, or from before a checkpoint was loaded (DeepSpeed issues 4886,
 * 5059, 7606: training goes on, wrongly). So forward never reads one, and writes it each time, whatever it holds. In
 * tests PARAM_PUBLISH fills it with NaN.
 *
 * Source: Wang et al. 2023, "ZeRO++", section 3.2 (hpZ). */
#include "zero/zero_second.h"

#include <stdlib.h>

enum { IN_FORWARD = 1, IN_BACKWARD = 2 };
static void walk(const struct compiled *c, char *gathered) {
    struct row_walk at = {0};
    for (const struct row *r; (r = schedule_next_row(c->schedule, c->chunks, &at));)
        if (r->kind == ROW_PARAM_AHEAD) gathered[r->id] |= at.action->kind == ACTION_F ? IN_FORWARD : IN_BACKWARD;
}

enum status zero_second_mark(const struct compiled *c, struct program *p) {
    char *gathered = calloc((size_t)p->n_params + 1, sizeof *gathered);
    if (!gathered) return FAIL(E_MEMORY, "no memory for a table of %d params", p->n_params);
    walk(c, gathered);
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        bool kept = w->second_axis != AXIS_SELF && gathered[i] == (IN_FORWARD | IN_BACKWARD);
        kept = kept && !w->gradient_of;                              /* sums.h: it has no weight of its own */
        w->second_n = kept ? w->padded_n / mesh_size(w->second_axis, &p->place) : 0;
    }
    free(gathered);
    return OK;
}

static int64_t second_bytes(const struct param *w) { return w->second_n * (int64_t)dtype_size(w->type.dtype); }

enum status zero_second_keep(struct run *r, const struct param *w, const void *whole) {
    if (!w->second_n) return OK;
    const char *part = (const char *)whole + mesh_index(w->second_axis, &r->plan.place) * second_bytes(w);
    return r->device->copy(r->device, w->second, part, second_bytes(w));
}

enum status zero_second_forget(struct run *r) {
    for (int i = 0; i < r->program.n_params && r->exec.paint; i++) {
        const struct param *w = &r->program.params[i];
        if (w->second_n) TRY(arena_paint(&r->arenas[TIER_DEVICE][ROLE_PARAM], w->second, second_bytes(w)));
    }
    return OK;
}
