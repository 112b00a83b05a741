/* A training step. run_phases shows the whole algorithm on one screen. */
#include "lib/run/run_state.h"

#include "lib/base/say.h"
#include "lib/device/stopwatch.h"
#include "lib/program/sums.h"
#include "lib/run/combine.h"
#include "lib/run/update.h"
#include "lib/run/versions.h"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>

/* Clear sharded gradients (ZeRO 2 and 3), to which buckets are added. The first row that writes a whole gradient
 * overwrites it (gradients.c), so whole gradients are not cleared. Arena neighbors are cleared together. */
static enum status clear_gradients(struct run *r) {
    const struct device *d = run_grad_device(r);
    char *from = NULL, *end = NULL;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->grad_residence == RESIDENT_WHOLE) continue;
        if (w->grad != end) {
            TRY(d->clear(d, from, end - from));
            from = w->grad;
        }
        end = (char *)w->grad + param_resident_n(w, w->grad_residence) * (int64_t)dtype_size(w->grad_type.dtype);
    }
    return d->clear(d, from, end - from);
}

/* The learning rate follows the number of updates, not of steps, as in Megatron. So warmup does not advance while a
 * dynamic loss scale skips steps. */
static struct step_record *begin_step(struct run *r) {
    struct step_record *s = &r->record[r->n_step % STEPS_AHEAD];
    r->exec.n_step = (uint64_t)r->n_step;
    r->skipped = s->settled = false;
    r->exec.loss_at = s->on_device;
    s->n_step = r->n_step, s->n_update = r->n_update;
    s->result.lr = plan_lr(&r->plan, r->n_update);
    s->result.loss_scale = r->exec.loss_scale;
    return s;
}

/* The previous step, if its loss and norm are still unknown; else NULL. */
static struct step_record *unsettled(struct run *r) {
    struct step_record *last = &r->record[(r->n_step + STEPS_AHEAD - 1) % STEPS_AHEAD];
    return r->n_started > 0 && !last->settled ? last : NULL;
}

enum status run_settle(void *self, bool *again) {
    struct run *r = self;
    struct step_record *last = unsettled(r);
    if (!last) return OK;
    TRY(update_settle(r, last, again));
    run_enter(r, PHASE_SCHEDULE);
    return clear_gradients(r);
}

/* The sums are complete: start copying the step's numbers to the host. */
static enum status end_step(struct run *r, struct step_record *step) {
    bool again;
    r->n_step++;
    r->n_started++;
    return run_overlaps(r) ? OK : update_settle(r, step, &again);
}

enum status run_check_threads(const struct run *r) {
    int now = omp_get_max_threads();
    if (now <= r->program.n_threads) return OK;
    return FAIL(E_INTERNAL,
                "%d OpenMP threads, and scratch was planned for %d; set the threads before the run is created", now,
                r->program.n_threads);
}

static enum status run_phases(struct run *r, struct step_record *step) {
    run_enter(r, PHASE_CLEAR);
    TRY(versions_begin_step(r));
    if (!r->schedule.validates || !unsettled(r)) TRY(clear_gradients(r));   /* else run_settle clears */
    run_enter(r, PHASE_SCHEDULE);
    TRY(exec_run(&r->exec, &r->schedule, true));                     /* every microbatch forward and backward */
    if (!plan_has_samples(&r->plan)) TRY(run_emit(r, EVENT_NO_SAMPLES));
    run_enter(r, PHASE_LOSS);
    TRY(update_sum_loss(r, step));
    run_enter(r, PHASE_BACKWARD_END);
    TRY(run_emit(r, EVENT_BACKWARD_END));
    run_enter(r, PHASE_COMBINE);
    TRY(combine_gradients(r));
    TRY(sums_add_uses(r->device, &r->program));
    TRY(run_emit(r, EVENT_GRAD_COMBINE));
    run_enter(r, PHASE_UNSCALE);
    TRY(run_emit(r, EVENT_GRAD_UNSCALE));
    if (!r->skipped) TRY(update_begin(r, step));
    return versions_end_step(r);
}

enum status run_step_start(struct run *r) {
    if (r->n_started >= (r->may_skip ? 1 : STEPS_AHEAD))
        return FAIL(E_INTERNAL, "%d steps are started and none of them is finished", r->n_started);
    TRY(run_check_threads(r));
    struct step_record *step = begin_step(r);
    run_record_step(r);
    run_read_ahead(r);
    TRY(r->loop.step ? r->loop.step(r, r->loop.self, step) : run_phases(r, step));
    run_record_end(r);
    return end_step(r, step);
}

/* With a flush no weight has changed since that step, so resetting the counters undoes the step. */
static enum status refuse_non_finite(struct run *r, const struct step_record *step, const char *what, double value) {
    struct step_record *later = unsettled(r);
    bool again;
    if (isfinite(value)) return OK;
    if (later) TRY(update_settle(r, later, &again));                 /* complete its sums in flight */
    r->n_step = step->n_step, r->n_update = step->n_update;
    return FAIL(E_NUMERIC,
                "the %s of step %" PRId64 " is %g; %s. Lower lr=%g, raise warmup=%" PRId64 ", or look at the data",
                what, step->n_step + 1, printed(value),
                r->schedule.n_frames ? "other stages may have updated by then" : "no weight was changed", r->plan.lr,
                r->plan.warmup);
}

enum status run_step_finish(struct run *r) {
    if (r->n_started == 0) return FAIL(E_INTERNAL, "no step has been started");
    struct step_record *step = &r->record[(r->n_step - r->n_started) % STEPS_AHEAD];
    bool again;
    char what[48];
    TRY(update_settle(r, step, &again));                             /* no-op if a later step did it */
    snprintf(what, sizeof what, "step %" PRId64, step->n_step + 1);
    TRY(run_wait(r, &step->mark, what));
    if (r->exec.stopwatch) TRY(stopwatch_collect(r->exec.stopwatch));
    r->n_started--;
    struct step_result *x = &step->result;
    x->aux_loss = step->scalars[SCALAR_AUX_LOSS];
    x->loss = step->scalars[SCALAR_LOSS] + x->aux_loss;
    x->expert_load = step->scalars[SCALAR_EXPERT_LOAD] / (double)r->plan.layers;
    x->dropped = step->scalars[SCALAR_DROPPED] / (double)r->plan.layers;
    x->grad_norm = r->skipped ? NAN : step->scalars[SCALAR_NORM];
    if (r->norm_axis != AXIS_MESH && !isfinite(step->scalars[SCALAR_MESH_SQUARES])) x->grad_norm = NAN;
    x->clip_factor = r->skipped ? NAN : optim_clip_factor(x->grad_norm, r->plan.clip);
    r->last = *x;
    /* every rank has the same numbers, so all ranks fail here or none */
    if (!r->may_skip) TRY(refuse_non_finite(r, step, "loss", x->loss));
    if (!r->skipped) TRY(refuse_non_finite(r, step, "gradient norm", x->grad_norm));
    r->n_done = step->n_step + 1;
    return OK;
}

enum status run_step(struct run *r) {
    TRY(run_step_start(r));
    return run_step_finish(r);
}
