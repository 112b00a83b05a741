#include "lib/run/profile.h"

#include "lib/base/grow.h"
#include <stdlib.h>
#include <string.h>

struct line { const char *name; double forward_s, input_s, weight_s, forecast_s; };

static double total_s(const struct line *l) { return l->forward_s + l->input_s + l->weight_s; }

static int by_time(const void *a, const void *b) {
    double x = total_s(a), y = total_s(b);
    return (x < y) - (x > y);
}

/* The steps of one operation in one line. */
static struct line *lines_of(const struct run *r, const struct profile_forecast *forecast, int *n) {
    struct line *lines = NULL;
    *n = 0;
    for (int i = 0; i < r->program.n_steps; i++) {
        const char *name = r->program.steps[i].op->name;
        const double *s = r->exec.step_seconds[i];
        int at = 0;
        while (at < *n && lines[at].name != name) at++;
        if (at == *n) {
            lines = table_grow(lines, *n, sizeof *lines);
            lines[(*n)++] = (struct line){.name = name};
        }
        lines[at].forward_s += s[ROW_FORWARD] + s[ROW_REPLAY];
        lines[at].input_s += s[ROW_BACKWARD_INPUT];
        lines[at].weight_s += s[ROW_BACKWARD_WEIGHT];
        for (int k = 0; forecast && k < ROW_WAIT; k++) lines[at].forecast_s += forecast->row_s[i][k];
    }
    qsort(lines, (size_t)*n, sizeof *lines, by_time);
    return lines;
}

void profile_restart(struct run *r) {
    memset(r->exec.step_seconds, 0, (size_t)r->program.n_steps * sizeof *r->exec.step_seconds);
    r->update_s = 0;
}

static void print_other(const char *what, double ms, double seconds, double step_s, FILE *to) {
    fprintf(to, "%-24s %43.3f %6.1f%%", what, ms * seconds, 100 * seconds / step_s);
}

/* The last column, where there is one. */
static void end_line(const struct profile_forecast *forecast, double seconds, FILE *to) {
    if (forecast) fprintf(to, " %10.3f", 1e3 * seconds);
    fprintf(to, "\n");
}

void profile_print(const struct run *r, int64_t steps, double step_s, const struct profile_forecast *forecast,
                   FILE *to) {
    int n;
    struct line *lines = lines_of(r, forecast, &n);
    double ms = 1e3 / (double)steps, known_s = r->update_s;
    fprintf(to, "%-24s %10s %10s %10s %10s %7s%s\n", "ms per step", "forward", "backward x", "backward w", "together",
            "share", forecast ? "  predicted" : "");
    for (int i = 0; i < n; i++) {
        const struct line *l = &lines[i];
        known_s += total_s(l);
        fprintf(to, "%-24s %10.3f %10.3f %10.3f %10.3f %6.1f%%", l->name, ms * l->forward_s, ms * l->input_s,
                ms * l->weight_s, ms * total_s(l), 100 * total_s(l) / step_s);
        end_line(forecast, l->forecast_s, to);
    }
    print_other("optimizer", ms, r->update_s, step_s, to);
    end_line(forecast, forecast ? forecast->update_s : 0, to);
    print_other("waiting and the rest", ms, step_s - known_s, step_s, to);
    fprintf(to, "\n");
    free(lines);
}
