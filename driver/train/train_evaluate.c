/* Evaluation in training. It follows the save of its step, so that a failing evaluation loses no step.
 *
 * An evaluation may take longer than the 30 s between a batch system's request to stop and its kill. So between two
 * batches the ranks do the work of a step's edge: publish what --save-async has written, and check for a request to
 * stop and for the end of the epoch. In both cases the evaluation ends early. Its loss is then discarded, because the
 * mean over a part of the validation data is not comparable with the mean over all. */
#include "driver/train/train_state.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/say.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool train_evaluation_is_due(const struct training *t, int64_t n_step) {
    const struct plan *p = &t->setup.plan;
    if (data_split_samples(&t->setup.val) == 0) return false;
    return n_step == p->steps || (train_options(p)->eval_every && n_step % train_options(p)->eval_every == 0);
}

/* After the last step the end of the epoch does not end the evaluation, because a new epoch has no further work. */
static bool is_to_end(const struct training *t) {
    return t->stop.agreed || (t->epoch.ends && t->run.n_done < t->setup.plan.steps);
}

static enum status between_batches(void *self, bool *ends) {
    struct training *t = self;
    TRY(train_poll_save(t, false));
    TRY(train_listen(t));
    TRY(train_hear_of_epoch(t));
    *ends = is_to_end(t);
    return OK;
}

/* All ranks have the same failure; rank 0 reports it. */
static void note_failure(struct training *t) {
    char why[512];
    snprintf(why, sizeof why, "%s", status_message());
    enum status status = FAIL(E_DATA, "the evaluation after step %" PRId64 " failed: %s", t->run.n_done, why);
    if (comm_is_rank_0()) train_pass_over(t, status);
    status_clear();
}

static void note_early_end(const struct training *t, const struct evaluated *e) {
    char where[64] = "is left out";
    if (!comm_is_rank_0()) return;
    if (e->all)
        snprintf(where, sizeof where, "ended early, after %" PRId64 " of %" PRId64 " batches", e->batches, e->all);
    log_warn("the evaluation after step %" PRId64 " %s: %s", t->run.n_done, where,
             t->stop.agreed ? "the job was asked to stop" : "the ranks of the job change");
}

static void note_loss(struct training *t, const struct evaluated *e, double seconds) {
    char auc[48] = "";
    if (!comm_is_rank_0()) return;
    if (!isnan(e->auc)) snprintf(auc, sizeof auc, " | val auc %.5f", e->auc);
    if (log_get_level() >= LOG_INFO)
        printf("eval %" PRId64 "/%" PRId64 " | val loss %.4f%s | %.1f ms\n", t->run.n_done, t->setup.plan.steps,
               printed(e->loss), auc, 1e3 * seconds);
    fflush(stdout);
    train_pass_over(t, metrics_evaluation(&t->metrics, t->run.n_done, e->loss, e->auc));
}

enum status train_evaluate(struct training *t) {
    struct evaluated e = {.batches = 0};
    double start = clock_s();
    const int64_t batches = train_options(&t->setup.plan)->eval_batches;
    enum status status = t->stop.agreed ? OK : run_evaluate_until(&t->run, batches, between_batches, t, &e);
    if (e.unread) note_failure(t);
    else if (status != OK) return status;
    else if (e.batches < e.all || e.all == 0) note_early_end(t, &e);
    else note_loss(t, &e, clock_s() - start);
    return train_agree_to_stop(t);
}
