#include "lib/run/profile.h"

#include "lib/base/grow.h"
#include "lib/ops/cost.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A line of the table: an operation, or one of its steps in all layers; with the flops and bytes of its rows in one
 * training step. */
struct line {
    const char *op;
    char name[2 * NAME_MAX_LEN + 8];
    int n;
    double forward_s, input_s, weight_s, forecast_s, flops, bytes;
};
struct lines { int n; struct line *at; };

/* The work of a step of the program. second: the step that shares its kernel in forward (lib/ops/fusion.h), or -1.
 * first: for each kind of row, the step whose kernel runs it, or -1 for its own. flops, bytes, forecast_s: sums over
 * the rows that this step's kernels run. */
struct work { int second, first[ROW_WAIT]; double flops, bytes, forecast_s; };

static double total_s(const struct line *l) { return l->forward_s + l->input_s + l->weight_s; }

static int by_time(const void *a, const void *b) {
    double x = total_s(a), y = total_s(b);
    return (x < y) - (x > y);
}

/* ---- the work of rows ---- */
static void add_row(const struct program *p, const struct row *r, struct work *work) {
    const struct row *last = r->fused ? r + r->joined - 1 : r;
    struct call first = program_call(p, &p->steps[r->id]), second = program_call(p, &p->steps[last->id]);
    struct cost cost = r->joined > 1 ? cost_joined(&first, &second, r->kind) : op_cost(&first, r->kind);
    work[r->id].flops += cost.flops - cost.left_out;
    work[r->id].bytes += cost.bytes;
    if (last->id == r->id) return;
    work[r->id].second = last->id;
    work[last->id].first[last->kind] = r->id;
}

static void add_forecast(const struct profile_forecast *forecast, int n_steps, struct work *work) {
    for (int i = 0; i < n_steps; i++)
        for (int k = 0; k < ROW_WAIT; k++)
            work[work[i].first[k] < 0 ? i : work[i].first[k]].forecast_s += forecast->row_s[i][k];
}

/* A schedule without a flush fills its pipeline once. Only the rows after the filling are those of every step. */
static struct work *work_of(const struct run *r, const struct profile_forecast *forecast) {
    const struct program *p = &r->program;
    struct work *work = table_new(p->n_steps, sizeof *work);
    struct row_walk at = {.next_action = r->schedule.n_fill};
    const struct row *last = NULL;
    for (int i = 0; i < p->n_steps; i++) {
        work[i].second = -1;
        for (int k = 0; k < ROW_WAIT; k++) work[i].first[k] = -1;
    }
    for (const struct row *row; (row = schedule_next_row(&r->schedule, r->chunks, &at));) {
        if (!row_kind_is_step(row->kind) || row == last) continue;
        last = row->joined > 1 ? row + row->joined - 1 : NULL;
        add_row(p, row, work);
    }
    if (forecast) add_forecast(forecast, p->n_steps, work);
    return work;
}

/* ---- lines ---- */
/* Write "h*.qkv" for h0.qkv, h1.qkv, ...; a step outside the layers keeps its name. @return the length */
static int name_step(const struct program *p, int step, char *to, size_t room) {
    const struct step *s = &p->steps[step];
    const struct block *b = &p->blocks[s->block];
    const char *slot = p->slots[s->out[0]].name;
    size_t n = strlen(b->name), letters = n;
    while (letters > 0 && isdigit((unsigned char)b->name[letters - 1])) letters--;
    bool of_layer = b->is_layer && letters < n && strncmp(slot, b->name, n) == 0 && slot[n] == '.';
    return of_layer ? snprintf(to, room, "%.*s*%s", (int)letters, slot, slot + n) : snprintf(to, room, "%s", slot);
}

static struct line line_of(const struct run *r, int step, const struct work *work) {
    const struct program *p = &r->program;
    const double *s = r->exec.step_seconds[step];
    struct line l = {.op = p->steps[step].op->name, .n = 1, .forward_s = s[ROW_FORWARD] + s[ROW_REPLAY],
                     .input_s = s[ROW_BACKWARD_INPUT], .weight_s = s[ROW_BACKWARD_WEIGHT],
                     .forecast_s = work[step].forecast_s, .flops = work[step].flops, .bytes = work[step].bytes};
    int at = name_step(p, step, l.name, sizeof l.name);
    if (work[step].second < 0) return l;
    at += snprintf(l.name + at, sizeof l.name - (size_t)at, " + ");
    name_step(p, work[step].second, l.name + at, sizeof l.name - (size_t)at);
    return l;
}

/* Add l to the line of the same operation (and the same name, if by_name), or append a new line. */
static void add(struct lines *to, const struct line *l, bool by_name) {
    int i = 0;
    while (i < to->n && (to->at[i].op != l->op || (by_name && strcmp(to->at[i].name, l->name) != 0))) i++;
    if (i == to->n) {
        to->at = table_grow(to->at, to->n, sizeof *to->at);
        to->at[to->n++] = *l;
        return;
    }
    struct line *sum = &to->at[i];
    sum->n += l->n;
    sum->forward_s += l->forward_s, sum->input_s += l->input_s, sum->weight_s += l->weight_s;
    sum->forecast_s += l->forecast_s, sum->flops += l->flops, sum->bytes += l->bytes;
}

static void make_lines(const struct run *r, const struct profile_forecast *forecast, struct lines *ops,
                       struct lines *steps) {
    struct work *work = work_of(r, forecast);
    *ops = *steps = (struct lines){0};
    for (int i = 0; i < r->program.n_steps; i++) {
        const struct line l = line_of(r, i, work);
        add(steps, &l, true);
        add(ops, &l, false);
    }
    qsort(ops->at, (size_t)ops->n, sizeof *ops->at, by_time);
    qsort(steps->at, (size_t)steps->n, sizeof *steps->at, by_time);
    free(work);
}

void profile_restart(struct run *r) {
    memset(r->exec.step_seconds, 0, (size_t)r->program.n_steps * sizeof *r->exec.step_seconds);
    r->update_s = 0;
}

/* ---- the table ---- */
struct table { FILE *to; double ms, steps, step_s; bool has_forecast; };

/* The rate as a text, as in "61.2 Gflop/s" or "17.3 GB/s"; "" if nothing is counted. */
static const char *rate_of(const struct line *l, double steps) {
    static char text[32];
    double giga = steps * (l->flops > 0 ? l->flops : l->bytes) / total_s(l) / 1e9;
    bool tera = l->flops > 0 && giga >= 1000;
    if (!(total_s(l) > 0 && giga > 0)) return "";
    if (tera) giga /= 1000;
    snprintf(text, sizeof text, giga >= 99.95 ? "%.0f %s" : "%#.3g %s", giga,
             tera ? "Tflop/s" : l->flops > 0 ? "Gflop/s" : "GB/s");
    return text;
}

/* Print the last column, the forecast, if there is one. */
static void end_line(const struct table *t, double seconds) {
    if (t->has_forecast) fprintf(t->to, " %9.3f", 1e3 * seconds);
    fprintf(t->to, "\n");
}

static void print_line(const struct table *t, const struct line *l, const char *op, const char *name) {
    fprintf(t->to, "%-22s %-18s %3d %9.3f %10.3f %10.3f %9.3f %5.1f%% %13s", op, name, l->n, t->ms * l->forward_s,
            t->ms * l->input_s, t->ms * l->weight_s, t->ms * total_s(l), 100 * total_s(l) / t->step_s,
            rate_of(l, t->steps));
    end_line(t, l->forecast_s);
}

static void print_other(const struct table *t, const char *what, double seconds, double forecast_s) {
    fprintf(t->to, "%-76s %9.3f %5.1f%%", what, t->ms * seconds, 100 * seconds / t->step_s);
    if (forecast_s > 0) fprintf(t->to, " %13s", "");
    if (forecast_s > 0) end_line(t, forecast_s);
    else fprintf(t->to, "\n");
}

/* Print an operation, and its steps below it; a single step shares the operation's line. */
static void print_op(const struct table *t, const struct line *op, const struct lines *steps) {
    const struct line *mine = NULL;
    int n = 0;
    for (int i = 0; i < steps->n; i++)
        if (steps->at[i].op == op->op) mine = &steps->at[i], n++;
    print_line(t, op, op->op, n == 1 ? mine->name : "");
    for (int i = 0; i < steps->n && n > 1; i++)
        if (steps->at[i].op == op->op) print_line(t, &steps->at[i], "", steps->at[i].name);
}

void profile_print(const struct run *r, int64_t steps, double step_s, const struct profile_forecast *forecast,
                   FILE *to) {
    const struct table t = {to, 1e3 / (double)steps, (double)steps, step_s, forecast != NULL};
    struct lines ops, of;
    double known_s = r->update_s;
    make_lines(r, forecast, &ops, &of);
    fprintf(to, "%-22s %-18s %3s %9s %10s %10s %9s %6s %13s%s\n", "ms per step", "of", "n", "forward", "backward x",
            "backward w", "together", "share", "rate", forecast ? " predicted" : "");
    for (int i = 0; i < ops.n; i++) {
        known_s += total_s(&ops.at[i]);
        print_op(&t, &ops.at[i], &of);
    }
    print_other(&t, "optimizer", r->update_s, forecast ? forecast->update_s : 0);
    print_other(&t, "waiting and the rest", step_s - known_s, 0);
    free(ops.at);
    free(of.at);
}
