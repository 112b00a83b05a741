#include "lib/rows/optim_rows.h"

#include <math.h>
#include <stdlib.h>

/* A table, and the step whose records are sorted now; -1: none. */
struct table { struct rows rows; const struct param *w; int64_t sorted; };

/* factor: of the steps that wait, by number modulo their count; rates are those of the step that applies. */
struct optim_rows {
    struct hot_rows *hot;                /* borrowed; NULL: the rows are in memory */
    double eps;
    int n, delay;
    int64_t next, end;                   /* steps next .. end - 1 wait */
    double factor[ROWS_MAX_DELAY + 1], lr;
    struct table table[];
};

/* The step that looks up in a table. */
static const struct step *reader_of(const struct program *p, int param) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].op->record && p->steps[i].weight[0] == param) return &p->steps[i];
    return NULL;
}
static bool is_table(const struct program *p, int i) {
    return p->params[i].present && p->params[i].update == UPDATE_ROWS && !p->forward_only;
}

static int64_t index_bytes(const struct program *p, int i) {
    const struct step *s = reader_of(p, i);
    return arena_align(rows_index_bytes(&p->slots[s->in[0]].type, param_records_of_step(&p->params[i])));
}

int64_t optim_rows_work(const struct program *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->n_params; i++)
        if (is_table(p, i)) bytes += index_bytes(p, i);
    return bytes;
}

static struct table table_of(const struct program *p, int i, void *work) {
    const struct param *w = &p->params[i];
    const struct param_array *hot = param_array(w, HOT_ROWS);
    const struct step *s = reader_of(p, i);
    struct rows r = {.ids = p->slots[s->in[0]].type, .table = w->type, .record_bytes = w->record_bytes,
                     .n_records = param_records_of_step(w), .weight = hot ? hot->at : w->weight, .place = w->hot_place,
                     .kept = p->params[s->weight[1]].weight};
    r.index = work;
    r.other = r.index + r.n_records * type_n(&r.ids);
    return (struct table){r, w, -1};
}

enum status optim_rows_create(const struct run *r, void *work, struct hot_rows *hot, struct optim_rows **out) {
    const struct program *p = &r->program;
    char *at = work;
    int n = 0;
    for (int i = 0; i < p->n_params; i++) n += is_table(p, i);
    *out = NULL;
    if (n == 0) return OK;
    struct optim_rows *o = *out = calloc(1, sizeof *o + (size_t)n * sizeof *o->table);
    if (!o) return FAIL(E_MEMORY, "no memory for %d tables", n);
    o->hot = hot, o->eps = r->plan.eps;
    for (int i = 0; i < p->n_params; i++) {
        if (!is_table(p, i)) continue;
        o->table[o->n++] = table_of(p, i, at);
        o->delay = p->params[i].delay;
        at += index_bytes(p, i);
    }
    return OK;
}

void optim_rows_destroy(struct optim_rows **o) {
    free(*o);
    *o = NULL;
}

static void sort(struct table *t, int64_t step) {
    if (t->sorted == step) return;
    t->rows.records = param_records(t->w, (uint64_t)step);
    rows_sort(&t->rows);
    t->sorted = step;
}

enum status optim_rows_squares(struct optim_rows *o, int64_t step, double *sum) {
    for (int i = 0; o && i < o->n; i++) {
        double squares;
        o->table[i].sorted = -1;                                     /* new records, perhaps of a step done again */
        sort(&o->table[i], step);
        TRY(rows_squares(&o->table[i].rows, &squares));
        *sum += squares;
    }
    return OK;
}

static enum status apply_next(struct optim_rows *o) {
    int64_t step = o->next++;
    for (int i = 0; i < o->n; i++) {
        struct table *t = &o->table[i];
        sort(t, step);
        double factor = o->factor[step % (o->delay + 1)];
        if (!isnan(factor)) TRY(hot_rows_need_to_update(o->hot, t->w, &t->rows));
        TRY(rows_update(&t->rows, o->lr * t->w->lr_scale, o->eps, factor));
    }
    return OK;
}

enum status optim_rows_step(struct optim_rows *o, int64_t step, double lr, double factor) {
    if (!o) return OK;
    if (o->next == o->end) o->next = step;
    o->end = step + 1;
    o->lr = lr;
    o->factor[step % (o->delay + 1)] = factor;
    while (o->end - o->next > o->delay) TRY(apply_next(o));
    return OK;
}

enum status optim_rows_settle(struct optim_rows *o) {
    while (o && o->next < o->end) TRY(apply_next(o));
    return OK;
}

void optim_rows_forget(struct optim_rows *o) {
    if (o) o->next = o->end = 0;
}
