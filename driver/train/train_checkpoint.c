/* A training job's first checkpoint to load, its saves, and its early end. */
#include "driver/train/train_state.h"
#include "launch/stop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint.h"
#include <inttypes.h>
#include <stdio.h>

/* ---- side failures ---- */
void train_pass_over(struct training *t, enum status status) {
    if (status == OK) return;
    if (t->side.status == OK) {
        t->side.status = status == E_DATA ? E_DATA : E_IO;
        snprintf(t->side.why, sizeof t->side.why, "%s", status_message());
        log_warn("%s; training continues", t->side.why);
    }
    status_clear();
}

/* ---- at the start ---- */
/* Warn of a run from scratch into the folder of an earlier run, because its first save sets the earlier steps aside. */
static void warn_of_others(const char *save) {
    char step[CHECKPOINT_PATH_MAX];
    if (checkpoint_resolve(save, step) == OK && comm_is_rank_0())
        log_warn("%s is of an earlier run, and this one starts from scratch: the first save moves its checkpoints to "
                 "%s/aside-N; give --resume %s to continue, or --save another folder", step, save, save);
    status_clear();
}

enum status train_take_checkpoint(struct training *t) {
    const struct plan *p = &t->setup.plan;
    const struct train_options *o = train_options(p);
    char step[CHECKPOINT_PATH_MAX];
    bool resume = o->resume[0] != 0;
    if (!resume && p->save[0]) warn_of_others(p->save);
    if (!resume && o->other_data && comm_is_rank_0())
        log_warn("other-data has no part in a run without --resume");
    if (!setup_from(p)[0]) return OK;
    enum status status = checkpoint_resolve(setup_from(p), step);
    if (status == OK && resume) status = checkpoint_check_data(&t->run, step, o->other_data);
    TRY(fail_agree(group_world(), status));
    TRY(checkpoint_load(&t->run, step, resume ? CHECKPOINT_ALL : CHECKPOINT_WEIGHTS));
    t->first_step = t->saver.step = t->run.n_done;
    if (!comm_is_rank_0() || log_get_level() < LOG_INFO) return OK;
    if (!resume) printf("init: weights of %s\n", step);
    else if (t->run.n_done >= p->steps)
        printf("resume: %s is at step %" PRId64 " of %" PRId64 ": there is nothing left to do\n", step, t->run.n_done,
               p->steps);
    else printf("resume: %s, at step %" PRId64 " of %" PRId64 "\n", step, t->run.n_done, p->steps);
    fflush(stdout);
    if (resume && !p->save[0] && t->run.n_done < p->steps)
        log_info("the steps of this run will not be saved; give --save a folder to go on from them later");
    return OK;
}

/* Rank 0's host tells all ranks the last saved step, because a save must be due on all ranks alike. */
enum status train_take_snapshots(struct training *t) {
    TRY(t->keeper->go_on(&t->run));
    t->first_step = t->run.n_done;
    t->saver.step = comm_epoch_kept();
    return comm_broadcast(group_world(), &t->saver.step, (int64_t)sizeof t->saver.step, UINT8, 0);
}

/* ---- saving ---- */
bool train_save_is_due(const struct training *t, int64_t n_step) {
    const struct plan *p = &t->setup.plan;
    return p->save[0] && n_step != t->saver.step &&
           (n_step == p->steps || (p->save_every && n_step % p->save_every == 0));
}

/* Continue after a failed save, because a full disk may have room later. The run fails only if its last save fails. */
static enum status pass_over(struct training *t, enum status status, int64_t step) {
    t->saver.leaves_unsaved = step == t->run.n_done && (t->stop.agreed || step == t->setup.plan.steps);
    if (t->saver.leaves_unsaved) return status;
    if (comm_is_rank_0()) log_warn("step %" PRId64 " is not saved, and training continues: %s", step, status_message());
    status_clear();
    return OK;
}

/* Record the end of a save, successful or not. All ranks have the same status. */
static enum status note_save(struct training *t, enum status status, int64_t step, double save_s, double stall_s) {
    char why[1024];
    if (status == E_TIMEOUT || status == E_COMM || status == E_EPOCH) return status;
    snprintf(why, sizeof why, "%s", status_message());
    t->saver.failed = status != OK;
    t->saver.n_failures += t->saver.failed;
    t->saver.stalls_s += stall_s;
    t->saver.n_saves++;
    if (comm_is_rank_0()) train_pass_over(t, metrics_save(&t->metrics, step, save_s, stall_s, t->saver.n_failures));
    if (t->saver.failed) return pass_over(t, FAIL(status, "%s", why), step);
    t->saver.step = step;
    comm_epoch_keep(step);
    t->saver.spent_s = t->saver.spent_at_begin_s;
    if (comm_is_rank_0() && log_get_level() >= LOG_INFO)
        printf("saved %s/step-%08" PRId64 " | %.1f ms, training stood still for %.1f ms\n", t->setup.plan.save, step,
               1e3 * save_s, 1e3 * stall_s);
    fflush(stdout);
    return OK;
}

/* Save by a thread, unless this is the last save, for which training waits anyway. */
static bool saves_beside(const struct training *t) {
    return train_options(&t->setup.plan)->save_async && !t->stop.agreed && t->run.n_done < t->setup.plan.steps;
}

/* Make rank 0's failure that of every rank. */
static enum status share(enum status status) {
    char why[1024];
    status = fail_share(group_world(), status, why, sizeof why);
    return status == OK || !*why ? status : FAIL(status, "%s", why);
}

static enum status lock_again(struct training *t) {
    if (!t->saver.lacks_lock) return OK;
    enum status status = share(comm_is_rank_0() ? checkpoint_lock(t->setup.plan.save, &t->saver.lock) : OK);
    t->saver.lacks_lock = status != OK;
    return status;
}

/* The newest step in the save folder that belongs to this run: the resumed step if it is there, otherwise -1. */
static int64_t newest_own_step(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    const struct train_options *o = train_options(p);
    char step[CHECKPOINT_PATH_MAX];
    bool is_there = o->resume[0] && checkpoint_resolve(o->resume, step) == OK && checkpoint_is_in(step, p->save);
    status_clear();
    return is_there ? t->first_step : -1;
}

/* Before the first save, move steps of other runs aside, because they must not count for --keep. In a later epoch the
 * folder may have saves of this job already. */
static enum status set_others_aside(struct training *t) {
    if (t->saver.has_set_aside) return OK;
    bool is_first = comm_is_rank_0() && comm_epoch_kept() <= 0;
    TRY(share(is_first ? checkpoint_set_aside(t->setup.plan.save, newest_own_step(t)) : OK));
    t->saver.has_set_aside = true;
    return OK;
}

enum status train_save(struct training *t) {
    const struct plan *p = &t->setup.plan;
    TRY(train_poll_save(t, true));                                   /* one save at a time */
    if (t->saver.step == t->run.n_done) return OK;
    double start = clock_s();
    t->saver.spent_at_begin_s = t->clock.spent_s;
    enum status status = lock_again(t);
    if (status == OK) status = set_others_aside(t);
    if (status == OK)
        status = saves_beside(t) ? checkpoint_save_start(&t->run, p->save, train_options(p)->keep, &t->saver.writing)
                                 : checkpoint_save(&t->run, p->save, train_options(p)->keep);
    const double stall_s = t->saver.stall_s = clock_s() - start;
    return status == OK && t->saver.writing ? OK : note_save(t, status, t->run.n_done, stall_s, stall_s);
}

enum status train_poll_save(struct training *t, bool wait) {
    struct checkpoint_saved saved;
    double start = clock_s();
    if (!t->saver.writing) return OK;
    enum status status = checkpoint_save_poll(&t->saver.writing, wait, &saved);
    t->saver.stall_s += clock_s() - start;
    return status == OK && !saved.ended ? OK : note_save(t, status, saved.step, saved.save_s, t->saver.stall_s);
}

/* ---- stopping before the end ---- */
static enum status hear_who_was_asked(struct training *t) {
    TRY(comm_wait(&t->stop.asking));
    t->stop.agreed |= t->stop.asked;
    return OK;
}

/* Start an all-reduce of requests to stop. --time-limit counts by rank 0's clock. */
enum status train_listen(struct training *t) {
    const struct plan *p = &t->setup.plan;
    const struct train_options *o = train_options(p);
    int32_t stop = stop_was_asked();
    if (!p->save[0])
        return stop ? FAIL(E_IO,
                           "asked to stop after step %" PRId64 ", and there is nowhere to save; give --save a folder",
                           t->run.n_done)
                    : OK;
    if (comm_is_rank_0() && o->time_limit > 0) stop |= clock_s() - t->clock.born_s >= o->time_limit;
    TRY(hear_who_was_asked(t));
    t->stop.asked = stop;
    return comm_all_reduce_start(group_world(), &t->stop.asked, 1, INT32, COMM_MAX, &t->stop.asking);
}

/* If steps overlap, do not wait for the all-reduce: all ranks learn its result a step later. */
enum status train_agree_to_stop(struct training *t) {
    if (t->run.loop.step && t->run.exec.since_flush > 0) return OK;  /* wait until the replicas average */
    TRY(train_listen(t));
    bool later = run_overlaps(&t->run) && !t->tracer.trace && t->run.n_done < t->setup.plan.steps;
    return later ? OK : hear_who_was_asked(t);
}

bool train_may_leave(const struct training *t) {
    const struct run *r = &t->run;
    return t->stop.agreed && r->n_started == 0 && r->exec.since_flush == 0 && !r->apart && r->n_done < r->plan.steps;
}

enum status train_leave(struct training *t) {
    TRY(hear_who_was_asked(t));
    if (t->saver.step != t->run.n_done) TRY(train_save(t));
    if (comm_is_rank_0() && log_get_level() >= LOG_WARN)
        printf("stopped after step %" PRId64 " of %" PRId64 "; continue with --resume %s\n", t->run.n_done,
               t->setup.plan.steps, t->setup.plan.save);
    fflush(stdout);
    return OK;
}
