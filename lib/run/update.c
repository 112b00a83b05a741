#include "lib/run/update.h"

#include "lib/base/clock.h"
#include "lib/device/stopwatch.h"
#include "lib/ops/reduce.h"
#include "lib/run/run_state.h"
#include "lib/run/versions.h"
#include <string.h>

/* Without a flush, only clipping needs the norm. A loss scale (may_skip) needs the sums before the update. */
bool run_overlaps(const struct run *r) {
    return !r->may_skip && (r->schedule.validates || (r->schedule.n_frames > 0 && r->plan.clip == 0));
}

/* Health is a sticky sum: after a NaN or infinity no later update changes a weight, even if the host reads it late. */
static enum status note_health(struct run *r, const struct step_record *s) {
    if (r->may_skip) return OK;
    TRY(reduce_add(r->device, r->health, &s->on_device[SCALAR_LOSS], FP64));
    if (model_options(&r->plan)->experts) TRY(reduce_add(r->device, r->health, &s->on_device[SCALAR_AUX_LOSS], FP64));
    enum run_scalar squares = r->norm_axis == AXIS_MESH ? SCALAR_SQUARES : SCALAR_MESH_SQUARES;
    return reduce_add(r->device, r->health, &s->on_device[squares], FP64);
}

/* Compute the factor from the present SCALAR_SQUARES, which are one rank's (a guess) or all ranks'. */
static enum status decide(struct run *r, const struct step_record *s, double clip) {
    double *x = s->on_device;
    return optimizer_decide(r->device, &x[SCALAR_MULTIPLIER], &x[SCALAR_NORM], &x[SCALAR_SQUARES], r->health, clip,
                        s->unscale);
}

/* Wait for the loss; with fixed sums, round the exact sum. */
static enum status know_loss(struct run *r, struct step_record *s) {
    TRY(comm_wait(&s->loss));
    if (r->program.fixed_sums) s->on_device[SCALAR_LOSS] = r->exec.loss_weight * exact_value(s->loss_numbers);
    return OK;
}

static enum status know_sums(struct run *r, struct step_record *s) {
    TRY(know_loss(r, s));
    TRY(comm_wait(&s->squares));
    if (r->program.fixed_sums) s->on_device[SCALAR_SQUARES] = exact_value(s->square_numbers);
    TRY(note_health(r, s));
    return decide(r, s, r->plan.clip);
}

/* ---- the update's time, by the stopwatch if there is one, else by the host's clock ---- */
static enum status time_from(struct run *r, double *start) {
    *start = clock_s();
    return r->exec.stopwatch ? stopwatch_start(r->exec.stopwatch) : OK;
}
static enum status time_to(struct run *r, double start) {
    if (r->exec.stopwatch) return stopwatch_stop(r->exec.stopwatch, &r->update_s);
    r->update_s += clock_s() - start;
    return OK;
}

/* ---- sums without rounding (--sums fixed): computed in host memory, then written to on_device ---- */
static enum status send_exactly(struct run *r, double numbers[EXACT_NUMBERS], struct comm_request *request) {
    return comm_all_reduce_start(r->mesh.group[AXIS_MESH], numbers, EXACT_NUMBERS, FP64, COMM_SUM, request);
}
static enum status sum_loss_exactly(struct run *r, struct step_record *s) {
    exact_numbers(&r->exec.loss_sum, s->loss_numbers);
    if (!program_counts_loss(&r->program)) memset(s->loss_numbers, 0, sizeof s->loss_numbers);
    TRY(send_exactly(r, s->loss_numbers, &s->loss));
    return run_overlaps(r) ? OK : know_loss(r, s);
}
static enum status sum_squares_exactly(struct run *r, struct step_record *s) {
    double start;
    TRY(time_from(r, &start));
    optim_exact_squares(r, s->square_numbers);
    s->on_device[SCALAR_SQUARES] = exact_value(s->square_numbers);
    if (run_overlaps(r)) TRY(decide(r, s, 0));
    TRY(send_exactly(r, s->square_numbers, &s->squares));
    if (!run_overlaps(r)) TRY(know_sums(r, s));
    return time_to(r, start);
}

/* Update the own elements, and publish them. */
static enum status apply(struct run *r, const struct step_record *s) {
    double start;
    run_enter(r, PHASE_UPDATE);
    TRY(time_from(r, &start));
    TRY(versions_begin_update(r));
    TRY(optim_step(r, s));
    TRY(run_emit(r, EVENT_OPTIM_STEP));
    TRY(time_to(r, start));
    r->n_update = s->n_update + 1;
    run_enter(r, PHASE_PUBLISH);
    return run_emit(r, EVENT_PARAM_PUBLISH);
}

/* The last stage has the loss; among ranks with equal losses (tp), one rank contributes. The sum also covers the losses
 * that other stages add, of which each is counted by one rank already (chunk.losses). */
enum status update_sum_loss(struct run *r, struct step_record *s) {
    if (r->program.fixed_sums) return sum_loss_exactly(r, s);
    double *loss = &s->on_device[SCALAR_LOSS];
    if (!program_counts_loss(&r->program)) TRY(r->device->clear(r->device, loss, sizeof *loss));
    int n = model_options(&r->plan)->experts ? N_LOSS_SUMS : 1;      /* in a dense model the others are 0 */
    TRY(comm_all_reduce_start(r->mesh.group[AXIS_MESH], loss, n, FP64, COMM_SUM, &s->loss));
    return run_overlaps(r) ? OK : comm_wait(&s->loss);
}

/* If each replica has its own norm, SCALAR_MESH_SQUARES still sums over all ranks, so that all ranks go on or none. */
static enum status sum_squares_start(struct run *r, struct step_record *s) {
    double *x = s->on_device;
    if (r->norm_axis != AXIS_MESH) {
        TRY(r->device->copy(r->device, &x[SCALAR_MESH_SQUARES], &x[SCALAR_SQUARES], sizeof *x));
        TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], &x[SCALAR_MESH_SQUARES], 1, FP64, COMM_SUM));
    }
    return comm_all_reduce_start(r->mesh.group[r->norm_axis], &x[SCALAR_SQUARES], 1, FP64, COMM_SUM, &s->squares);
}

/* Compute this rank's squares, guess the factor from them if steps overlap, and start the sum over all ranks. */
static enum status sum_squares(struct run *r, struct step_record *s) {
    double start;
    if (r->program.fixed_sums) return sum_squares_exactly(r, s);
    TRY(time_from(r, &start));
    TRY(optim_squares(r));
    if (run_overlaps(r)) TRY(decide(r, s, 0));
    TRY(sum_squares_start(r, s));
    if (!run_overlaps(r)) TRY(know_sums(r, s));
    return time_to(r, start);
}

enum status update_begin(struct run *r, struct step_record *s) {
    run_enter(r, PHASE_NORM);
    s->unscale = r->unscale;
    TRY(run_emit(r, EVENT_GRAD_NORM));
    TRY(sum_squares(r, s));
    if (run_overlaps(r) && r->schedule.validates) TRY(shadow_take(r));
    return apply(r, s);
}

/* ---- settling ---- */
/* The right factor is known now. If the guess was wrong, redo the update. A NaN factor always counts as wrong. */
static enum status put_right(struct run *r, struct step_record *s, bool *again) {
    double factor, *newest = r->exec.loss_at;
    TRY(run_read_scalar(r, &s->on_device[SCALAR_MULTIPLIER], &factor));
    *again = factor != s->unscale;
    if (!*again) return OK;
    r->n_redone++, r->exec.loss_at = s->on_device;       /* subscribers read numbers of s, not of the step begun */
    TRY(shadow_restore(r));
    TRY(apply(r, s));
    r->exec.loss_at = newest;
    return OK;
}

enum status update_settle(struct run *r, struct step_record *s, bool *again) {
    const struct device *d = r->device;
    if (s->settled) return OK;
    if (run_overlaps(r)) TRY(know_sums(r, s));
    if (run_overlaps(r) && r->schedule.validates) TRY(put_right(r, s, again));
    TRY(d->download_start(d, s->scalars, s->on_device, N_SCALARS * sizeof *s->scalars));
    s->settled = true;
    return d->mark_set(d, &s->mark);
}
