#include "driver/compare/compare_measure.h"

#include "driver/recipe.h"
#include "driver/train/metrics.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/sort.h"
#include <inttypes.h>
#include <stdlib.h>

int64_t compare_warmup(int64_t n_steps) { return n_steps / 4 < 2 ? n_steps / 4 : 2; }

double compare_median(double *seconds, int64_t n) {
    sort_doubles(seconds, n);
    return sorted_median(seconds, n);
}

/* ---- sums over the timed steps ---- */
struct tally { double sent_bytes[N_MESH_AXES], waited_s[N_MESH_AXES], bubble_s, spent_s, work_s; };

/* Processor time without communication. */
static double work_s(void) { return processor_s() - comm_work_s(); }

/* Call with factor -1 before the first timed step and +1 after the last, so that earlier steps do not count. */
static void add_ledgers(struct tally *t, const struct mesh *mesh, double factor) {
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < N_MESH_AXES; axis++) {
        const struct ledger_entry e = metrics_ledger(mesh->group[axis]);
        t->sent_bytes[axis] += factor * e.bytes;
        t->waited_s[axis] += factor * e.wait_s;
    }
}

/* Rank 0 prints a line every 15 seconds. */
static void tell_progress(const struct run *r, double *told_s) {
    if (!comm_is_rank_0() || clock_s() - *told_s < 15) return;
    *told_s = clock_s();
    log_info("measuring: step %" PRId64 "/%" PRId64, r->n_step, r->plan.steps);
}

/* Recording begins and ends between two steps, and the bytes and waits of begin and end are not counted. */
static enum status begin_counting(struct run *r, struct trace *trace, struct tally *t) {
    if (trace) TRY(trace_start(trace));
    add_ledgers(t, &r->mesh, -1);
    return OK;
}
static enum status end_recording(struct run *r, struct trace *trace, struct tally *t, struct trace_data *out) {
    if (!trace) return OK;
    add_ledgers(t, &r->mesh, 1);
    TRY(trace_stop(trace));
    TRY(trace_gather(trace, out));                                   /* must come now, because it counts steps up to
                                                                      * the current one as recorded */
    add_ledgers(t, &r->mesh, -1);
    return OK;
}

static enum status run_steps(struct run *r, struct trace *trace, int64_t n_warm, double *seconds, struct tally *t,
                             struct trace_data *traces) {
    double told_s = clock_s();
    int64_t traced = n_warm + COMPARE_TRACED < r->plan.steps ? n_warm + COMPARE_TRACED : r->plan.steps;
    while (r->n_step < r->plan.steps) {
        bool timed = r->n_step >= n_warm;
        if (r->n_step == n_warm) TRY(begin_counting(r, trace, t));
        double start = clock_s(), work = work_s();
        r->flush_at = r->plan.steps;
        TRY(run_step(r));
        double step_s = clock_s() - start;
        if (timed) {
            seconds[r->n_step - 1 - n_warm] = step_s;
            t->spent_s += step_s;
            t->work_s += work_s() - work;
            t->bubble_s += r->exec.transfer_s;
        }
        if (r->n_step == traced) TRY(end_recording(r, trace, t, traces));
        tell_progress(r, &told_s);
    }
    add_ledgers(t, &r->mesh, 1);
    return OK;
}

/* ---- the measurements of one rank ---- */
static void take_tally(struct compare_rank *mine, const struct tally *t, double n_timed) {
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < N_MESH_AXES; axis++) {
        mine->sent_bytes[axis] = t->sent_bytes[axis] / n_timed;
        mine->waited_s[axis] = t->waited_s[axis] / n_timed;
    }
    mine->bubble_s = t->bubble_s / n_timed;
    mine->step_s = t->spent_s / n_timed;
    mine->work_s = t->work_s / n_timed;
}

static enum status take_memory(struct compare_rank *mine, const struct run *r) {
    mine->resident_bytes = resident_peak_bytes();
    memcpy(mine->predicted, r->memory.bytes, sizeof mine->predicted);
    return run_measure(r, mine->measured);
}

static void take_bill(struct compare_rank *mine, const struct run *r) {
    const double *flops = r->bill.flops;
    mine->forward_flops = flops[ROW_FORWARD];
    mine->weight_flops = flops[ROW_BACKWARD_WEIGHT];
    mine->flops = flops[ROW_FORWARD] + flops[ROW_BACKWARD_INPUT] + flops[ROW_BACKWARD_WEIGHT];
    mine->replay_flops = flops[ROW_REPLAY];
}

static void fill_row(struct compare_row *row, const struct run *r, double *seconds, int64_t n_timed) {
    const struct plan *p = &r->plan;
    if (recipe_draws_pipeline()) recipe_draws_pipeline()->note(p, row);
    row->n_chunks = r->program.n_chunks;
    row->n_microbatches = p->n_microbatches;
    row->n_steps = p->steps;
    row->n_timed = n_timed;
    row->step_s = compare_median(seconds, n_timed);
    row->tokens_per_s = (double)p->global_batch * (double)p->seq / row->step_s;
    row->loss = r->last.loss;
}

enum status compare_measure(struct run *r, struct trace *trace, struct compare_row *row, struct compare_rank *mine) {
    int64_t n_warm = compare_warmup(r->plan.steps), n_timed = r->plan.steps - n_warm;
    struct tally tally = {0};
    enum status status;
    double *seconds = malloc((size_t)n_timed * sizeof *seconds);
    if (!seconds) return FAIL(E_MEMORY, "no memory for the times of %" PRId64 " steps; use fewer", n_timed);
    *mine = (struct compare_rank){.place = r->mesh.place};
    TRY_DONE(run_steps(r, trace, n_warm, seconds, &tally, &row->trace));
    take_tally(mine, &tally, (double)n_timed);
    take_bill(mine, r);
    fill_row(row, r, seconds, n_timed);
    TRY_DONE(take_memory(mine, r));
done:
    free(seconds);
    return status;
}
