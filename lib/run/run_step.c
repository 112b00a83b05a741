/* A step: the whole algorithm in one screen, see run_step_start. */
#include "lib/run/run_state.h"

#include "lib/base/clock.h"
#include "lib/device/stopwatch.h"
#include "lib/ops/adamw.h"
#include "lib/ops/reduce.h"
#include "lib/run/combine.h"
#include "lib/run/versions.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Clears sharded gradients (ZeRO 2 and 3), to which buckets are added; whole ones are overwritten by the first row that
 * writes them (gradients.c). Neighbors in the arena are cleared together. */
static enum status clear_gradients(struct run *r) {
    char *from = NULL, *end = NULL;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->grad_residence == RESIDENT_WHOLE) continue;
        if (w->grad != end) {
            TRY(r->device->clear(r->device, from, end - from));
            from = w->grad;
        }
        end = (char *)w->grad + param_resident_n(w, w->grad_residence) * (int64_t)dtype_size(w->grad_type.dtype);
    }
    return r->device->clear(r->device, from, end - from);
}

/* The last stage has the loss; of ranks that have the same one (tp's), one speaks. Every rank learns it. */
static enum status sum_loss(struct run *r) {
    double *loss = &r->scalars[SCALAR_LOSS];
    if (!program_counts_loss(&r->program)) TRY(r->device->clear(r->device, loss, sizeof *loss));
    return comm_all_reduce(r->mesh.group[AXIS_MESH], loss, 1, FP64, COMM_SUM);
}

/* A sticky flag: after any NaN or infinity no later update changes a weight, however late the host reads it. */
static enum status note_health(struct run *r) {
    double *health = &r->scalars[SCALAR_HEALTH];
    if (r->may_skip) return OK;
    TRY(reduce_add(r->device, health, &r->scalars[SCALAR_LOSS], FP64));
    return reduce_add(r->device, health, &r->scalars[SCALAR_SQUARES], FP64);
}

/* Gradients are complete, own elements summed over all replicas: norm, clipping, AdamW, and publishing what changed. */
static enum status update(struct run *r, double lr) {
    double *s = r->scalars, start = clock_s();
    run_enter(r, PHASE_NORM);
    if (r->exec.stopwatch) TRY(stopwatch_start(r->exec.stopwatch));
    TRY(run_emit(r, EVENT_GRAD_NORM));
    TRY(optim_norm(r));
    TRY(note_health(r));
    TRY(adamw_decide(r->device, &s[SCALAR_MULTIPLIER], &s[SCALAR_NORM], &s[SCALAR_SQUARES], &s[SCALAR_HEALTH],
                     r->plan.clip, r->unscale));
    run_enter(r, PHASE_UPDATE);
    TRY(versions_begin_update(r));
    TRY(optim_step(r, lr));
    if (r->exec.stopwatch) TRY(stopwatch_stop(r->exec.stopwatch, &r->update_s));
    else r->update_s += clock_s() - start;
    r->n_update++;
    TRY(run_emit(r, EVENT_OPTIM_STEP));
    run_enter(r, PHASE_PUBLISH);
    return run_emit(r, EVENT_PARAM_PUBLISH);
}

/* The rate follows the updates, not the steps: while a dynamic loss scale finds its level, warmup waits. As
 * Megatron. */
static struct step_record begin_step(struct run *r) {
    r->exec.n_step = (uint64_t)r->n_step;
    r->skipped = false;
    return (struct step_record){.n_step = r->n_step, .n_update = r->n_update, .lr = plan_lr(&r->plan, r->n_update),
                                .loss_scale = r->exec.loss_scale};
}

/* The step's numbers start on their way to the host; the mark says when they are there. */
static enum status end_step(struct run *r, const struct step_record *step) {
    struct step_record *to = &r->record[r->n_step % STEPS_AHEAD];
    double *pinned = to->scalars;
    struct device_mark mark = to->mark;
    *to = *step;
    to->scalars = pinned;
    to->mark = mark;
    to->skipped = r->skipped;
    to->unscale = r->unscale;
    TRY(r->device->download_start(r->device, pinned, r->scalars, N_SCALARS * sizeof *pinned));
    TRY(r->device->mark_set(r->device, &to->mark));
    r->n_step++;
    r->n_started++;
    return OK;
}

enum status run_step_start(struct run *r) {
    if (r->n_started >= (r->may_skip ? 1 : STEPS_AHEAD))
        return FAIL(E_INTERNAL, "%d steps are started and none of them is finished", r->n_started);
    struct step_record step = begin_step(r);
    TRY(run_check_threads(r));
    run_record_step(r);
    run_enter(r, PHASE_CLEAR);
    TRY(versions_begin_step(r));
    TRY(clear_gradients(r));
    run_enter(r, PHASE_SCHEDULE);
    TRY(exec_run(&r->exec, &r->schedule, true));                     /* every microbatch forward and backward */
    run_enter(r, PHASE_LOSS);
    TRY(sum_loss(r));
    run_enter(r, PHASE_BACKWARD_END);
    TRY(run_emit(r, EVENT_BACKWARD_END));
    run_enter(r, PHASE_COMBINE);
    TRY(combine_gradients(r));
    TRY(run_emit(r, EVENT_GRAD_COMBINE));
    run_enter(r, PHASE_UNSCALE);
    TRY(run_emit(r, EVENT_GRAD_UNSCALE));
    if (!r->skipped) TRY(update(r, step.lr));
    TRY(versions_end_step(r));
    run_record_end(r);
    return end_step(r, &step);
}

/* Nothing has changed a weight since that step: it is undone by counting it as not done. */
static enum status refuse_non_finite(struct run *r, const struct step_record *step, const char *what, double value) {
    if (isfinite(value)) return OK;
    r->n_step = step->n_step;
    r->n_update = step->n_update;
    return FAIL(E_NUMERIC,
                "the %s of step %" PRId64 " is %g; no weight was changed. Lower lr=%g, raise warmup=%" PRId64
                ", or look at the data",
                what, step->n_step + 1, isnan(value) ? fabs(value) : value, r->plan.lr, r->plan.warmup);
}

enum status run_step_finish(struct run *r) {
    if (r->n_started == 0) return FAIL(E_INTERNAL, "no step has been started");
    const struct step_record *step = &r->record[(r->n_step - r->n_started) % STEPS_AHEAD];
    char what[48];
    snprintf(what, sizeof what, "step %" PRId64, step->n_step + 1);
    TRY(run_wait(r, &step->mark, what));
    if (r->exec.stopwatch) TRY(stopwatch_collect(r->exec.stopwatch));
    r->n_started--;
    r->loss = step->scalars[SCALAR_LOSS];
    r->grad_norm = step->skipped ? NAN : step->scalars[SCALAR_NORM];
    r->clip_factor = step->skipped ? NAN : optim_clip_factor(r->grad_norm, r->plan.clip);
    r->lr = step->lr;
    r->loss_scale = step->loss_scale;
    r->skipped = step->skipped;
    /* every rank has the same numbers: all leave here or none */
    if (!r->may_skip) TRY(refuse_non_finite(r, step, "loss", r->loss));
    if (!r->skipped) TRY(refuse_non_finite(r, step, "gradient norm", r->grad_norm));
    r->n_done = step->n_step + 1;
    return OK;
}

enum status run_step(struct run *r) {
    TRY(run_step_start(r));
    return run_step_finish(r);
}
