/* trivium train: set up, then step, print, evaluate.
 *
 * Failures. Before the first step, and at step edges, the ranks agree: the first failing rank prints its error, and all
 * leave MPI cleanly with the same exit code. In the middle of a step the ranks cannot agree, because a peer may be
 * dead: the rank that detects the failure prints it and ends the job. During start-up MPI waits forever for a process
 * that never starts; a deadline ends this wait. */
#include "driver/commands.h"

#include "driver/command.h"
#include "driver/deadline.h"
#include "driver/train/train_asked.h"
#include "driver/train/train_membership.h"
#include "driver/train/train_state.h"
#include "launch/launch.h"
#include "launch/limits.h"
#include "launch/stop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/comm/membership/comm_membership.h"
#include <signal.h>
#include <stdlib.h>

/* ---- side failures: metrics, a trace, an evaluation ---- */
/* Called when all steps are done: fail if metrics, a trace or an evaluation has failed. */
static enum status report_side_failure(const struct training *t) {
    enum status status = t->side.status == OK ? OK : FAIL(t->side.status, "%s; all steps are done", t->side.why);
    return fail_agree(group_world(), status);
}

/* ---- the loop ---- */
/* Rank 0 logs progress and the time left every 15 s. */
static void tell_progress(struct training *t) {
    double now = clock_s(),
           done = (double)(t->run.n_done - t->first_step) / (double)(t->setup.plan.steps - t->first_step);
    if (!comm_is_rank_0() || now - t->clock.told_s < 15 || done >= 1) return;
    t->clock.told_s = now;
    int left = (int)((now - t->clock.started_s) * (1 - done) / done);
    log_info("progress %.0f%%, about %d:%02d:%02d left", 100 * done, left / 3600, left / 60 % 60, left % 60);
}

static enum status train(struct training *t) {
    t->clock.started_s = t->clock.told_s = clock_s();
    TRY(train_watch_begin(t));
    TRY(train_guard_begin(t));
    while (t->run.n_done < t->setup.plan.steps) {
        bool went_back;
        TRY(train_trace(t, false));
        TRY(train_guard(t, train_step(t), &went_back));
        if (went_back) continue;
        TRY(train_poll_save(t, false));
        if (train_save_is_due(t, t->run.n_done)) TRY(train_save(t));
        if (t->keeper && t->keeper->is_due(&t->run, t->run.n_done)) TRY(run_emit(&t->run, EVENT_STATE_READ));
        if (t->keeper) TRY(t->keeper->keep(&t->run));
        TRY(train_agree_to_stop(t));
        if (train_evaluation_is_due(t, t->run.n_done)) TRY(train_evaluate(t));   /* follows the save */
        if (train_may_leave(t)) {
            TRY(train_trace(t, true));
            TRY(train_watch_end(t));
            return train_leave(t);
        }
        TRY(train_end_epoch(t));
        tell_progress(t);
    }
    TRY(train_watch_end(t));
    t->stop.agreed = false;                                             /* too late to stop before the end */
    return train_trace(t, true);
}

/* ---- after the last ---- */
static void release(struct training *t) {
    free(t->profile.forecast.row_s);
    checkpoint_save_abandon(&t->saver.writing);
    checkpoint_unlock(&t->saver.lock);
    trace_destroy(&t->tracer.trace);
    trace_nvtx_end(&t->tracer.nvtx);
    train_watch_destroy(t);
    run_destroy(&t->run);
    metrics_close(&t->metrics);
    setup_fini(&t->setup);
    free(t);
}

/* After the last agreement every rank has finished its steps, and rank 0 has printed its report. So a later death is
 * harmless, and a rank that still waits may leave. A death before the agreement begins another epoch. */
static enum status end_epoch(struct training *t, enum status status) {
    if (status == OK && t->stop.agreed) status = comm_barrier(group_world());
    else if (status == OK) {
        status = report_side_failure(t);
        t->side.reported = status == E_IO || status == E_DATA;
    }
    if (status == OK) return comm_epoch_close();
    return status == E_EPOCH && comm_epoch_is_closed() ? OK : status;
}

static enum status one_epoch(struct training *t, struct train_asked *asked, bool *prepared) {
    enum status status = train_asked_agree(asked);
    if (status == OK) status = train_setup_of_epoch(asked, &t->setup, &t->epoch.from_memory);
    if (status == OK) status = train_prepare(t);
    deadline_lift();
    *prepared = status == OK;
    if (*prepared) status = train(t);
    return *prepared ? end_epoch(t, status) : status;
}

/* Discard all state of the old epoch, and enter the new one. Fail if this host has not heard of the new epoch,
 * because it is then cut off from the others. */
static enum status begin_again(struct training **t) {
    double born_s = (*t)->clock.born_s, epoch_s = clock_s();
    if (!comm_epoch_has_changed() && !comm_epoch_changes())
        return FAIL(E_COMM, "the others go on in another epoch, of which this host has not heard");
    comm_epoch_leave();
    if ((*t)->keeper) (*t)->keeper->leave(&(*t)->run);
    release(*t);
    *t = calloc(1, sizeof **t);
    if (!*t) return FAIL(E_MEMORY, "no memory to begin again with");
    (*t)->clock.born_s = born_s;
    (*t)->clock.epoch_s = epoch_s;
    return train_enter_epoch();
}

int train_main(int argc, char **argv) {
    static const struct command_alone help = {.usage = "", .has_plan = true, .request_bytes = sizeof(struct plan)};
    if (options_ask_for_help(argc, argv)) return command_main(&help, argc, argv);
    stop_listen();
    signal(SIGXFSZ, SIG_IGN);                                        /* a write beyond the limit on file sizes fails,
                                                                      * as on a full disk */
    deadline_set_for_start(argc, argv);
    struct training *t = calloc(1, sizeof *t);
    if (t) t->clock.born_s = t->clock.epoch_s = clock_s();
    struct train_asked asked = {.argc = argc, .argv = argv};
    enum status status = t ? limits_look_alone() : FAIL(E_MEMORY, "no memory to start with");
    if (status == OK && comm_is_spare()) train_asked_early(&asked);
    if (status == OK) status = comm_start(&argc, &argv);
    if (status == OK && comm_epoch() > 0) t->clock.epoch_s = clock_s();   /* a spare waits in comm_start */
    if (status != OK) {
        status_report();
        return status_exit_code(status);
    }
    bool prepared;
    while ((status = one_epoch(t, &asked, &prepared)) == E_EPOCH)
        if ((status = begin_again(&t)) != OK) {
            status_report();
            comm_finish(false, status_exit_code(status));
            return status_exit_code(status);
        }
    /* all ranks have the failure at the same place, so they can leave together */
    bool together = !prepared || (status == E_NUMERIC && !t->run.loop.step) || t->saver.leaves_unsaved;
    bool agreed = t->side.reported || (status != OK && together);
    if (agreed && prepared && !t->side.reported) status = fail_agree(t->run.mesh.group[AXIS_MESH], status);
    if (status == E_NUMERIC) (void)train_poll_save(t, true);         /* finish a save of an earlier step */
    if (status != OK) status_report();                               /* prints nothing if the ranks have agreed on,
                                                                      * and reported, the failure */
    if (status == OK || t->side.reported) train_summarise(t);
    bool clean = status == OK || agreed;
    int code = status == OK && t->stop.agreed ? EXIT_CHECKPOINTED : status_exit_code(status);
    if (clean) release(t);
    if (clean) setup_fini(&asked.setup);
    comm_finish(clean, code);
    return code;
}
