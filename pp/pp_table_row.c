/* Make a schedule of a user's table, and write any schedule as a table. */
#include "pp/pp_table.h"

static struct hop where(const struct pp_shape *x, int pipe, int s) {
    (void)pipe;
    return x->table->at[s];
}
static void order(const struct pp_shape *x, int stage, struct schedule *out) {
    const struct pp_line *r = &x->table->ranks[stage];
    for (int k = 0; k < r->n; k++)
        pp_add(out, action_of(r->cells[k].kind, x->table->at[r->cells[k].stage].chunk, r->cells[k].microbatch));
}
static enum status legal(const struct pp_shape *x) {
    const struct pp_table *t = x->table;
    if (x->n_stages == t->n_ranks && x->n_microbatches == t->n_microbatches) return OK;
    return FAIL(E_CONFIG,
                "%s has %d ranks and %d microbatches, and there are pp=%d and %d (global-batch / dp / micro-batch); "
                "make "
                "them equal",
                t->path, t->n_ranks, t->n_microbatches, x->n_stages, x->n_microbatches);
}

void pp_table_make_row(struct pp_table *t) {
    t->place = (struct pp_placement){.n_pipes = 1, .n_chunks = t->n_chunks, .where = where};
    t->row = (struct pp_schedule){.name = t->path, .place = &t->place, .split_weight = t->row.split_weight,
                                  .legal = legal, .order = order, .depth = pp_simulated_depth,
                                  .table = t};
}

void pp_table_write(const struct pp_schedule *row, const struct pp_shape *x, const struct schedule *stages, FILE *f) {
    for (int i = 0; i < x->n_stages; i++)
        for (int k = 0, n = 0; k <= stages[i].n; k++) {
            const struct action *a = &stages[i].actions[k];
            int s = 0;
            if (k == stages[i].n) fputc('\n', f);
            if (k == stages[i].n || !action_is_compute(a->kind)) continue;
            while (row->place->where(x, 0, s).rank != i || row->place->where(x, 0, s).chunk != a->chunk) s++;
            char letter = a->kind == ACTION_F ? 'F' : a->kind == ACTION_W ? 'W' : row->split_weight ? 'I' : 'B';
            fprintf(f, "%s%d%c%d", n++ ? ", " : "", s, letter, a->microbatch);
        }
}
