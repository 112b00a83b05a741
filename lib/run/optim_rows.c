#include "lib/run/optim_rows.h"

#include "lib/ops/rec/rows.h"
#include "lib/run/hot_rows.h"
#include <math.h>
#include <stdlib.h>

/* A table, and the step whose records are sorted now; -1: none. */
struct table { struct rows rows; const struct param *w; int64_t sorted; };

/* factor: of the steps that wait, by number modulo their count; rates are those of the step that applies. */
struct optim_rows {
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

enum status optim_rows_create(const struct run *r, void *work, struct optim_rows **out) {
    const struct program *p = &r->program;
    char *at = work;
    int n = 0;
    for (int i = 0; i < p->n_params; i++) n += is_table(p, i);
    *out = NULL;
    if (n == 0) return OK;
    struct optim_rows *o = *out = calloc(1, sizeof *o + (size_t)n * sizeof *o->table);
    if (!o) return FAIL(E_MEMORY, "no memory for %d tables", n);
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

enum status optim_rows_squares(const struct run *r, double *sum) {
    for (int i = 0; r->rows && i < r->rows->n; i++) {
        double squares;
        r->rows->table[i].sorted = -1;                               /* new records, perhaps of a step done again */
        sort(&r->rows->table[i], r->n_step);
        TRY(rows_squares(&r->rows->table[i].rows, &squares));
        *sum += squares;
    }
    return OK;
}

static enum status apply_next(struct run *r, struct optim_rows *o) {
    int64_t step = o->next++;
    for (int i = 0; i < o->n; i++) {
        struct table *t = &o->table[i];
        sort(t, step);
        double factor = o->factor[step % (o->delay + 1)];
        if (!isnan(factor)) TRY(hot_rows_need_to_update(r, t->w, &t->rows));
        TRY(rows_update(&t->rows, o->lr * t->w->lr_scale, r->plan.eps, factor));
    }
    return OK;
}

enum status optim_rows_step(struct run *r, const struct step_record *s) {
    struct optim_rows *o = r->rows;
    if (!o) return OK;
    if (o->next == o->end) o->next = s->n_step;
    o->end = s->n_step + 1;
    o->lr = s->result.lr;
    o->factor[s->n_step % (o->delay + 1)] = s->on_device[SCALAR_MULTIPLIER];
    while (o->end - o->next > o->delay) TRY(apply_next(r, o));
    return OK;
}

enum status optim_rows_settle(struct run *r) {
    struct optim_rows *o = r->rows;
    while (o && o->next < o->end) TRY(apply_next(r, o));
    return hot_rows_write_back(r);
}

enum status optim_rows_forget(struct run *r) {
    if (r->rows) r->rows->next = r->rows->end = 0;
    return hot_rows_forget(r);
}
