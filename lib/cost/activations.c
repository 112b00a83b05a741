#include "lib/cost/activations.h"

#include <inttypes.h>
#include <stdlib.h>

/* For each storage: the block that first reads it in backward (-1: none), and whether it holds a statistic. */
struct tenant { int block; bool statistic; };

static void read_by(const struct chunk *k, struct tenant *tenants, const int *operands, int n, int block) {
    for (int i = 0; i < n; i++) {
        if (operands[i] < 0) continue;
        struct tenant *t = &tenants[k->values[operands[i]].storage];
        if (t->block < 0) t->block = block;
    }
}

static void find_readers(const struct program *p, const struct chunk *k, struct tenant *tenants, enum tape_kind tape) {
    for (int i = 0; i < k->tapes[tape].n; i++) {
        const struct row *r = &k->tapes[tape].rows[i];
        if (r->kind > ROW_BACKWARD_WEIGHT) continue;
        read_by(k, tenants, r->in, MAX_IN, p->steps[r->id].block);
        read_by(k, tenants, r->out, MAX_OUT, p->steps[r->id].block);
    }
}

/* A parked value belongs to the block whose backward reads the copy that ROW_UNPARK brings back. */
static void find_parked(const struct chunk *k, struct tenant *tenants, enum tape_kind tape) {
    for (int i = 0; i < k->tapes[tape].n; i++) {
        const struct row *r = &k->tapes[tape].rows[i];
        if (r->kind == ROW_UNPARK) tenants[k->values[r->in[0]].storage] = tenants[k->values[r->out[0]].storage];
    }
}

static void find_statistics(const struct program *p, const struct chunk *k, struct tenant *tenants) {
    for (int i = 0; i < k->tapes[TAPE_F].n; i++) {
        const struct row *r = &k->tapes[TAPE_F].rows[i];
        if (r->kind != ROW_FORWARD) continue;
        for (int o = 0; o < p->steps[r->id].n_out; o++)
            if (p->steps[r->id].op->statistic_out >> o & 1) tenants[k->values[r->out[o]].storage].statistic = true;
    }
}

static enum status add_up(const struct chunk *k, const struct tenant *tenants, struct activations *blocks) {
    for (int i = 0; i < k->n_storages; i++) {
        const struct storage *s = &k->storages[i];
        if (!s->bytes || s->birth.tape != TAPE_F || storage_class(s) == SCRATCH) continue;
        if (tenants[i].block < 0) return FAIL(E_INTERNAL, "%" PRId64 " bytes are saved that no row reads", s->bytes);
        struct activations *a = &blocks[tenants[i].block];
        *(s->tier == TIER_HOST ? &a->parked : tenants[i].statistic ? &a->statistics : &a->bytes) += s->bytes;
    }
    return OK;
}

enum status activations_count(const struct program *p, const struct chunk *k, struct activations *blocks) {
    struct tenant *tenants = malloc((size_t)(k->n_storages + 1) * sizeof *tenants);
    if (!tenants) return FAIL(E_MEMORY, "no memory to look at %d buffers", k->n_storages);
    for (int i = 0; i < k->n_storages; i++) tenants[i] = (struct tenant){-1, false};
    find_readers(p, k, tenants, TAPE_B);
    find_readers(p, k, tenants, TAPE_W);
    find_parked(k, tenants, TAPE_B);
    find_parked(k, tenants, TAPE_W);
    find_statistics(p, k, tenants);
    enum status status = add_up(k, tenants, blocks);
    free(tenants);
    return status;
}
