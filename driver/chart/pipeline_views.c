/* The parts of train, compare and plan that know pipelines. This file belongs to pp, as do driver/chart/schedule_*,
 * driver/show/schedule*, driver/plan/plan_pipeline.* and driver/compare/compare_pipeline.*. */
#include "driver/chart/schedule_chart.h"
#include "driver/compare/compare_page.h"
#include "driver/plan/plan_pipeline.h"
#include "driver/recipe.h"
#include "lib/trace/trace.h"
#include "pp/pp.h"
#include <inttypes.h>

static void announce(const struct run *r, bool overlaps) {
    const struct plan *p = &r->plan;
    if (pp_row(p)->split_weight)
        printf("schedule: %s puts weight gradients off; loss-chunk %" PRId64 "%s\n", pp_row(p)->name, p->loss_chunk,
               p->loss_chunk == 0 ? ": the last stage keeps whole logits" : "; 0 lets the last stage do so, too");
    if (pp_options(p)->optim_sync == OPTIM_SYNC_VALIDATE)
        printf("optim-sync: updates are guessed while loss and norm are summed%s\n",
               overlaps
                   ? "; the next step begins meanwhile"
                   : "; with a loss scale or spike-guard no step begins meanwhile, and nothing is gained");
    if (pp_row(p)->endless)
        printf("schedule: %s drains for evaluations and checkpoints only; its numbers depend on when they are\n",
               pp_row(p)->name);
}

/* Print the measured bubble, and the schedule's idle time computed with the mean F, B and W of a microbatch. */
static enum status bubble(const struct plan *p, const struct trace_data *d) {
    struct trace_bubble b = trace_bubble(d);
    struct schedule_chart c = {.row = pp_row(p), .n_stages = (int)p->mesh.pp,
                               .n_chunks = (int)pp_options(p)->chunks, .n_microbatches = p->n_microbatches,
                               .time = {b.forward_s, b.backward_s, b.weight_s}};
    if (c.row->endless) {                                            /* steps overlap: a step has no idle time */
        printf("bubble %.2f ms per step, %.1f%% of forward and backward\n", 1e3 * b.idle_s,
               100 * b.idle_s / b.window_s);
        return OK;
    }
    enum status status = schedule_chart_make(&c);
    if (status == OK) {
        printf("bubble %.2f ms per step, %.1f%% of forward and backward; by the schedule %.2f ms, %.1f%%, with F %.2f "
               "ms and %s %.2f ms",
               1e3 * b.idle_s, 100 * b.idle_s / b.window_s, 1e3 * c.idle, 100 * c.idle / c.timeline.makespan,
               1e3 * c.time.f, c.row->split_weight ? "Bi" : "B", 1e3 * c.time.bi);
        if (c.row->split_weight) printf(" and W %.2f ms", 1e3 * c.time.w);
        putchar('\n');
    }
    schedule_chart_fini(&c);
    return status;
}

static void note(const struct plan *p, struct compare_row *row) { row->schedule = pp_row(p); }

const struct pipeline_views pipeline_views = {announce, bubble, note, compare_pipelines, plan_pipeline};
