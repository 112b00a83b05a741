/* The guard against spikes of the loss (spike.h): it restores the last checkpoint, and skips the samples that led to
 * the spike.
 *
 * The guard skips all samples from the checkpoint to the end of the spike's step. The sample counter, which checkpoints
 * contain, holds the position in the data, so a run resumed from a later checkpoint skips the same samples.
 * A run that is killed before its next save meets the same spike, and skips again. The guard restores one checkpoint at
 * most three times; then it accepts a loss that is finite. */
#include "driver/train/train_state.h"
#include "lib/base/log.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MOST_RETURNS = 3 };

enum status train_guard_begin(struct training *t) {
    if (train_options(&t->setup.plan)->spike_guard == 0) return OK;
    t->saver.step = -1;
    TRY(train_save(t));                                              /* the checkpoint to restore */
    t->saver.leaves_unsaved = t->saver.failed;
    return t->saver.failed ? FAIL(E_IO, "spike-guard goes back to the last checkpoint, and the first cannot be saved; "
                                       "point --save at a writable directory, or leave the guard out")
                          : OK;
}

static void note(struct training *t, const struct metrics_rollback *row) {
    if (!comm_is_rank_0()) return;
    char why[64] = "is not finite";
    if (isfinite(row->loss) && row->loss > row->limit)
        snprintf(why, sizeof why, "is %.4g, above %.4g", row->loss, row->limit);
    log_warn("the loss of step %" PRId64 " %s: back to step %" PRId64 ", leaving out %" PRId64
             " samples from number %" PRId64,
             row->step, why, row->to_step, row->n_samples, row->first_sample);
    train_pass_over(t, metrics_rollback(&t->metrics, row));
}

static enum status go_back(struct training *t, int64_t step, double limit) {
    struct run *r = &t->run;
    char folder[CHECKPOINT_PATH_MAX];
    struct metrics_rollback row = {.step = step, .loss = r->last.loss, .limit = limit, .to_step = t->saver.step};
    int64_t go_on_at = run_samples_before(r, step);
    char saved[OPTION_TEXT_MAX + 32];
    snprintf(saved, sizeof saved, "%s/step-%08" PRId64, t->setup.plan.save, t->saver.step);
    TRY(fail_agree(r->mesh.group[AXIS_MESH], checkpoint_resolve(saved, folder)));
    TRY(checkpoint_load(r, folder, CHECKPOINT_ALL));
    t->guard.n_rollbacks++;
    row.first_sample = run_samples_used(r);
    row.n_samples = go_on_at - row.first_sample;
    run_go_on_at_sample(r, go_on_at);
    t->clock.spent_s = t->saver.spent_s;                                   /* later steps are wasted time */
    note(t, &row);
    return OK;
}

/* May the guard restore the last checkpoint once more? */
static bool may_go_back(struct training *t) {
    if (t->guard.step != t->saver.step) t->guard.n_returns = 0;
    t->guard.step = t->saver.step;
    return t->guard.n_returns++ < MOST_RETURNS;
}

enum status train_guard(struct training *t, enum status status, bool *went_back) {
    double k = train_options(&t->setup.plan)->spike_guard, limit = spike_limit(&t->guard.spike, k);
    double loss = t->run.last.loss;
    *went_back = false;
    if (k == 0 || (status != OK && status != E_NUMERIC) || (status == OK && t->run.skipped)) return status;
    if (status == OK && loss <= limit) {
        spike_note(&t->guard.spike, loss);
        return OK;
    }
    char why[512];
    snprintf(why, sizeof why, "%s", status_message());
    TRY(train_poll_save(t, true));                                   /* finish a save of an earlier step */
    if (!may_go_back(t)) {
        if (status == OK) spike_note(&t->guard.spike, loss);
        return status == OK ? OK : FAIL(status, "%s", why);
    }
    status_clear();
    *went_back = true;
    return go_back(t, status == OK ? t->run.n_done : t->run.n_done + 1, limit);
}
