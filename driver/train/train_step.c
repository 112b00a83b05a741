/* Start, finish, measure and report one step of training. If steps overlap, the next step starts before the finish. */
#include "driver/train/train_membership.h"
#include "driver/train/train_state.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/run/versions.h"
#include <math.h>

static enum status report_step(struct training *t, double step_s, const struct step_meter *step) {
    const struct plan *p = &t->setup.plan;
    struct run *r = &t->run;
    const struct step_result *x = &r->last;
    double tokens = (double)p->global_batch * (double)p->seq, flops = p->arch->flops_per_token(p);
    struct metrics_row row = {
        .step = r->n_done, .steps = p->steps, .loss = x->loss, .grad_norm = x->grad_norm, .lr = x->lr, .step_s = step_s,
        .tokens_per_s = tokens / step_s, .mfu = flops * tokens / step_s / t->peak_flops, .flops_per_token = flops,
        .mem_peak_bytes = t->mem_peak_bytes, .comm_bytes = step->bytes, .comm_s = step->wait_s,
        .parked_bytes = step->parked, .data_s = step->data_s, .data_late = step->late,
        .bubble_s = p->device == PLAN_DEVICE_CPU ? r->exec.transfer_s : NAN,
        .skipped = r->skipped, .loss_scale = x->loss_scale, .tokens_seen = run_samples_used(r) * p->seq,
        .emulated = plan_emulates(p), .on_disk = r->disk != NULL, .disk = step->disk,
        .experts = model_options(p)->experts > 0, .aux_loss = x->aux_loss, .expert_load = x->expert_load,
        .dropped = x->dropped, .run = r};
    train_note_step();
    if (!comm_is_rank_0()) return OK;
    comm_epoch_done(r->n_done);
    if (log_get_level() >= LOG_INFO) metrics_print(&row);
    train_pass_over(t, metrics_step(&t->metrics, &row));
    return OK;
}

static enum status start_step(struct training *t) {
    struct step_meter *step = &t->started[t->run.n_step % STEPS_AHEAD];
    t->flight.step = t->run.n_step + 1;
    flight_step_is(&t->flight);
    step_meter_begin(step, &t->run);
    TRY(run_step_start(&t->run));
    step_meter_end(step, &t->run);
    return OK;
}

/* On a GPU, queue the next step before the host waits for this step's numbers, so that the GPU never waits for the
 * host. With overlapping steps do so on CPUs, too, so that no stage waits for the others' loss and norm. Do not start a
 * step before an evaluation, a save or a trace's edge, or if the host must check the gradients first. */
static bool may_start_another(const struct training *t) {
    const struct run *r = &t->run;
    const struct plan *p = &t->setup.plan;
    int64_t n = r->n_step;
    if (p->device != PLAN_DEVICE_CUDA && !run_overlaps(r)) return false;
    if (r->may_skip || train_options(p)->spike_guard > 0 || t->stop.agreed || t->epoch.ends) return false;
    if (n >= p->steps) return false;
    return !train_evaluation_is_due(t, n) && !train_save_is_due(t, n) && !train_trace_is_due(t, n) &&
           !(t->keeper && t->keeper->is_due(r, n));
}

/* The first step is not counted, unless it is the only one. */
static void note_profile(struct training *t, double step_s) {
    if (t->run.n_done == t->first_step + 1 && t->setup.plan.steps > t->run.n_done) {
        profile_restart(&t->run);
        return;
    }
    t->profile.n_steps++;
    t->profile.spent_s += step_s;
}

/* Plan the next flush, which empties an asynchronous pipeline, or lets workers of servers meet. Evaluations and saves
 * need a flush. A request to stop moves the flush to the first step that no rank has passed. */
static void plan_flush(struct training *t) {
    struct run *r = &t->run;
    int64_t soon = r->n_step + versions_steps_to_flush(r);
    if (t->stop.agreed && r->exec.since_flush > 0 && r->flush_at > soon) r->flush_at = soon;
    if (r->exec.since_flush > 0 || !(r->schedule.n_frames || r->loop.step)) return;
    for (r->flush_at = r->n_step + 1; r->flush_at < t->setup.plan.steps; r->flush_at++)
        if (train_evaluation_is_due(t, r->flush_at) || train_save_is_due(t, r->flush_at)) break;
}

/* The start time of the step after the finished one; now, if it has not started. */
static double start_of_next(const struct training *t) {
    return t->run.n_started ? t->started[t->run.n_done % STEPS_AHEAD].start_s : clock_s();
}

/* Own seconds of a step are those in which this rank does not wait for other ranks. */
static enum status watch_step(struct training *t, const struct step_meter *all, double injected_s) {
    const double own_s = all->spent_s - all->wait_s;
    t->flight = (struct flight_step){t->run.n_step, own_s, all->wait_s, {all->sent[0], all->sent[1]}};
    flight_step_is(&t->flight);
    return train_watch_step(t, own_s, injected_s);
}

enum status train_step(struct training *t) {
    struct step_meter all;
    step_meter_begin(&all, &t->run);
    double injected_s = train_watch_slow_down(t);
    const struct step_meter *step = &t->started[t->run.n_done % STEPS_AHEAD];
    plan_flush(t);
    if (t->run.n_started == 0) TRY(start_step(t));
    if (may_start_another(t)) TRY(start_step(t));
    TRY(run_step_finish(&t->run));
    double step_s = run_overlaps(&t->run) ? start_of_next(t) - step->start_s : clock_s() - all.start_s;
    t->clock.spent_s += step_s;
    note_profile(t, step_s);
    step_meter_end(&all, &t->run);
    TRY(watch_step(t, &all, injected_s));
    return report_step(t, step_s, step);
}
