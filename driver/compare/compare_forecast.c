#include "driver/compare/compare_forecast.h"

#include "driver/compare/compare_measure.h"
#include "driver/recipe.h"
#include "lib/base/log.h"
#include "planner/price.h"
#include <math.h>
#include <stdlib.h>

void compare_predict(const struct plan *p, const struct cluster *c, bool uneven, struct compare_row *row) {
    const struct price_wish wish = {.uneven = uneven};
    struct price *price = calloc(1, sizeof *price);                  /* large: it has numbers for 4096 stages */
    enum status status = price ? price_plan(&train_recipe, p, c, &wish, price) : FAIL(E_MEMORY, "no memory");
    if (status == OK) row->predicted_step_s = price->step_s, row->predicted_work_s = price->work_s;
    else log_warn("%s: its step is not predicted: %s", compare_row_name(row), status_message());
    status_clear();
    free(price);
}

static bool counts(const struct compare_row *row) { return row->status == OK && row->predicted_step_s > 0; }

static double error_of(double predicted, double measured) { return fabs(predicted / measured - 1); }

/* The median of value(row) over the rows that count; NAN without one. */
static double median_of(const struct compare_row *rows, int n, double (*value)(const struct compare_row *)) {
    double *values = malloc((size_t)n * sizeof *values), median = NAN;
    int64_t used = 0;
    for (int i = 0; values && i < n; i++)
        if (counts(&rows[i])) values[used++] = value(&rows[i]);
    if (used) median = compare_median(values, used);
    free(values);
    return median;
}

static double step_error(const struct compare_row *row) { return error_of(row->predicted_step_s, row->step_s); }
static double work_error(const struct compare_row *row) { return error_of(row->predicted_work_s, row->work_s); }

static void count_pairs(const struct compare_row *rows, int n, struct compare_forecast *f) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            const struct compare_row *a = &rows[i], *b = &rows[j];
            if (!counts(a) || !counts(b) || fabs(a->step_s / b->step_s - 1) <= 2 * f->noise) continue;
            f->pairs++;
            f->in_order += (a->step_s < b->step_s) == (a->predicted_step_s < b->predicted_step_s);
        }
}

struct compare_forecast compare_forecast_of(const struct compare_row *rows, int n) {
    struct compare_forecast f = {.noise = median_of(rows, n, compare_row_spread),
                                 .step_error = median_of(rows, n, step_error),
                                 .work_error = median_of(rows, n, work_error)};
    const struct compare_row *best = NULL, *chosen = NULL;
    for (int i = 0; i < n; i++) {
        if (!counts(&rows[i])) continue;
        f.n++;
        if (!best || rows[i].step_s < best->step_s) best = &rows[i];
        if (!chosen || rows[i].predicted_step_s < chosen->predicted_step_s) chosen = &rows[i];
    }
    if (best) f.regret = chosen->step_s / best->step_s - 1;
    count_pairs(rows, n, &f);
    return f;
}

void compare_forecast_print(FILE *to, const struct compare_row *rows, int n_rows) {
    struct compare_forecast f = compare_forecast_of(rows, n_rows);
    if (f.n < 2) return;
    fprintf(to, "Predicted against measured, %d strategies: median error %.1f%% of a step", f.n, 100 * f.step_error);
    if (isfinite(f.work_error)) fprintf(to, ", %.1f%% of the work of all ranks", 100 * f.work_error);
    if (f.regret > 0)
        fprintf(to, "; the one predicted to be fastest takes %.1f%% longer than the fastest.\n", 100 * f.regret);
    else
        fprintf(to, "; the one predicted to be fastest is.\n");
    if (f.noise > 0)
        fprintf(to, "Noise, the median spread of a strategy's passes: %.1f%%. Of the %d pairs of strategies that "
                    "differ by more than twice that, %d are in the predicted order.\n",
                100 * f.noise, f.pairs, f.in_order);
    else
        fprintf(to, "How much of that is noise is not known; use --repeat 2.\n");
}
