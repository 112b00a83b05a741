/* Hierarchical partitioning (hpZ): backward gathers within the node.
 *
 * Idea: stage 3 gathers every weight twice, for forward and for backward, and the weight does not change in between. So
 * the L ranks of a node keep the weight that forward gathered, one L-th each, and gather it again for backward.
 *
 *   P bytes of weights:
 *   forward    gather over all n replicas from the shards (1/n)       P (n-1)/n        crosses nodes
 *              keep part k of L of the result: the second shard       P / L bytes, role param
 *   backward   gather over the node from second shards (1/L)          P (L-1)/L        within the node
 *
 * Price: P/L more bytes of weights on a rank. Gradients and states stay sharded over all n. Hybrid sharding
 * (zero_shards.c) shards everything over L only, and sums between nodes once a step.
 *
 * Which params: those that backward gathers, so not biases. A chunk's forward gathers all its params before backward.
 *
 * What breaks: a second shard from before the update, or from before a checkpoint was loaded (DeepSpeed issues 4886,
 * 5059, 7606: training goes on with old weights). So forward never reads second shards, and always writes them. In
 * tests PARAM_PUBLISH fills them with NaN.
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

enum mesh_axis zero_second_axis(const struct param *w, const struct mesh_place *place) {
    enum mesh_axis part = mesh_shard_axis(param_replicas(w), place);
    return w->shard_axis == AXIS_SELF || w->shard_axis == part ? AXIS_SELF : part;
}

static const char SECOND[] = "second shard";

/* The second shard is in device memory, whatever the weight's tier. */
static enum status add_second(struct program *p, int param) {
    const struct param *w = &p->params[param];
    return program_add_array(p, param, &(struct param_array){
        .name = SECOND, .n = w->padded_n / mesh_size(zero_second_axis(w, &p->place), &p->place), .dtype = w->type.dtype,
        .role = ROLE_PARAM, .copies = 1});
}

const struct param_array *zero_second_of(const struct param *w) { return param_array(w, SECOND); }

enum status zero_second_mark(const struct compiled *c, struct program *p) {
    char *gathered = calloc((size_t)p->n_params + 1, sizeof *gathered);
    if (!gathered) return FAIL(E_MEMORY, "no memory for a table of %d params", p->n_params);
    enum status status = OK;
    walk(c, gathered);
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        bool kept = zero_second_axis(w, &p->place) != AXIS_SELF && gathered[i] == (IN_FORWARD | IN_BACKWARD);
        kept = kept && !w->gradient_of;                              /* no weight of its own (sums.h) */
        if (kept && status == OK) status = add_second(p, i);
    }
    free(gathered);
    return status;
}

enum status zero_second_keep(struct run *r, const struct param *w, const void *whole) {
    const struct param_array *second = zero_second_of(w);
    if (!second) return OK;
    int index = mesh_index(zero_second_axis(w, &r->plan.place), &r->plan.place);
    int64_t bytes = param_array_bytes(second);
    return r->device->copy(r->device, second->at, (const char *)whole + index * bytes, bytes);
}

enum status zero_second_forget(struct run *r) {
    for (int i = 0; i < r->program.n_params && r->exec.paint; i++) {
        const struct param_array *second = zero_second_of(&r->program.params[i]);
        if (second) TRY(arena_paint(&r->arenas[TIER_DEVICE][ROLE_PARAM], second->at, param_array_bytes(second)));
    }
    return OK;
}
