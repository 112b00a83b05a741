/* trivium schedule --all: every schedule of one shape in one table. */
#include "driver/show/schedule.h"

#include "driver/chart/schedule_chart.h"

/* Maxima over ranks: activations in flight, counted in microbatches of a whole stage; messages to other ranks. */
static double peak_of(const struct schedule_chart *c) {
    int most = 0;
    for (int i = 0; i < c->n_stages; i++) {
        int peak = pp_peak_in_flight(&c->stages[i]);
        if (peak > most) most = peak;
    }
    return (double)most * c->row->place->n_pipes / c->n_chunks;
}

static int messages_of(const struct schedule_chart *c) {
    int most = 0;
    for (int i = 0; i < c->n_stages; i++) {
        int sent = 0;
        for (int k = 0; k < c->stages[i].n; k++) {
            const struct action *a = &c->stages[i].actions[k];
            if (a->kind == SEND_F || a->kind == SEND_B) sent += schedule_hop(&c->stages[i], a).rank != i;
        }
        if (sent > most) most = sent;
    }
    return most;
}

static void print_row(const struct schedule_chart *c, const struct schedule_sizes *sizes) {
    char formula[64] = "";
    const struct pp_shape shape = schedule_chart_shape(c);
    double peak = peak_of(c);
    if (c->row->bubble) snprintf(formula, sizeof formula, "%.4g", c->row->bubble(&shape, &c->time));
    printf("%-15s %9.4g %9.4g %9.4g %9s %7.4g %9.4g %8d %9.4g %7d\n", c->row->name, c->timeline.makespan, c->idle,
           c->bubble, formula, peak, peak * sizes->activations, messages_of(c), messages_of(c) * sizes->message,
           c->row->place->n_pipes);
}

enum status schedule_all(const struct schedule_chart *like, const struct schedule_sizes *sizes) {
    printf("p = %d, m = %d; of a stage: F %g, Bi %g, W %g; message %g. Chunks: 2 where a schedule takes them\n\n",
           like->n_stages, like->n_microbatches, like->time.f, like->time.bi, like->time.w, like->transfer);
    printf("%-15s %9s %9s %9s %9s %7s %9s %8s %9s %7s\n", "schedule", "step", "idle", "bubble", "formula", "peak",
           "act MiB", "messages", "wire MiB", "weights");
    for (int k = 0; k < N_SCHEDULES; k++) {
        struct schedule_chart c = *like;
        c.row = pp_schedule_at(k);
        c.n_chunks = c.row->chunked && c.n_stages > 1 ? 2 : 1;
        enum status status = schedule_chart_make(&c);
        if (status == OK) print_row(&c, sizes);
        else if (status == E_CONFIG) printf("%-15s not of this shape: %s\n", c.row->name, status_message());
        if (status == E_CONFIG) status_clear();
        schedule_chart_fini(&c);
        if (status != OK && status != E_CONFIG) return status;
    }
    printf("\nidle      of a step that ends with a sum over all stages; bubble: from a stage's own first action to its "
           "last\n"
           "peak      microbatches whose activations of a whole stage the fullest rank keeps; x --act-mib\n"
           "messages  that the busiest rank sends in a step; x --message-mib\n"
           "weights   copies of them on a rank\n");
    return OK;
}
