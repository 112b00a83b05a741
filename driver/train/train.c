/* trivium train: set up, then step, print, evaluate.
 *
 * Failures. Before the first step, and at step edges, the ranks agree: the first failing one prints its line, all leave
 * MPI cleanly with the same exit code. In the middle of a step nothing can be agreed on (a peer may be dead): the
 * rank that notices prints its line and ends the job. While ranks start up, MPI itself can wait forever for a process
 * that never came; a deadline ends that. */
#include "driver/train/train.h"

#include "driver/deadline.h"
#include "driver/recipe.h"
#include "driver/train/metrics.h"
#include "driver/train/train_asked.h"
#include "driver/train/train_membership.h"
#include "driver/train/train_state.h"
#include "elastic/elastic.h"
#include "launch/goodput.h"
#include "launch/launch.h"
#include "launch/limits.h"
#include "launch/stop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/comm/membership/comm_membership.h"
#include "lib/run/optim_rows.h"
#include "lib/run/versions.h"
#include "pp/pp.h"
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- side failures: metrics, a trace, an evaluation ---- */
/* At the end of a job that has done all its steps. */
static enum status report_side_failure(const struct training *t) {
    enum status status = t->side_status == OK ? OK : FAIL(t->side_status, "%s; all steps are done", t->side_why);
    return fail_agree(group_world(), status);
}

/* ---- the loop ---- */
static enum status report_step(struct training *t, double step_s, const struct started *step) {
    const struct plan *p = &t->setup.plan;
    const struct run *r = &t->run;
    double tokens = (double)p->global_batch * (double)p->seq, flops = p->arch->flops_per_token(p);
    struct metrics_row row = {
        .step = r->n_done, .steps = p->steps, .loss = r->loss, .grad_norm = r->grad_norm, .lr = r->lr, .step_s = step_s,
        .tokens_per_s = tokens / step_s, .mfu = flops * tokens / step_s / t->peak_flops, .flops_per_token = flops,
        .mem_peak_bytes = t->mem_peak_bytes, .comm_bytes = step->bytes, .comm_s = step->wait_s,
        .parked_bytes = step->parked,
        .bubble_s = p->device == PLAN_DEVICE_CPU ? r->exec.transfer_s : NAN,
        .skipped = r->skipped, .loss_scale = r->loss_scale, .tokens_seen = run_samples_used(r) * p->seq,
        .emulated = plan_emulates(p), .on_disk = r->disk != NULL, .disk = step->disk,
        .experts = p->experts > 0, .aux_loss = r->aux_loss, .expert_load = r->expert_load, .dropped = r->dropped};
    train_note_step();
    if (!comm_is_rank_0()) return OK;
    comm_epoch_done(r->n_done);
    if (log_get_level() >= LOG_INFO) metrics_print(&row);
    train_pass_over(t, metrics_step(&t->metrics, &row));
    return OK;
}

static struct disk_traffic disk_since(const struct run *r, struct disk_traffic before) {
    struct disk_traffic now = r->disk ? disk_traffic(r->disk) : (struct disk_traffic){0};
    return (struct disk_traffic){now.read_bytes - before.read_bytes, now.written_bytes - before.written_bytes,
                                 now.wait_s - before.wait_s};
}

static enum status start_step(struct training *t) {
    double bytes_before, wait_before, bytes, wait_s;
    struct disk_traffic disk_before = disk_since(&t->run, (struct disk_traffic){0});
    struct started *step = &t->started[t->run.n_step % STEPS_AHEAD];
    step->start_s = clock_s();
    t->flight.step = t->run.n_step + 1;
    flight_step_is(&t->flight);
    metrics_comm(&t->run.mesh, &bytes_before, &wait_before);
    step->parked = -t->run.exec.parked_bytes;
    TRY(run_step_start(&t->run));
    step->parked += t->run.exec.parked_bytes;
    metrics_comm(&t->run.mesh, &bytes, &wait_s);
    step->bytes = bytes - bytes_before;
    step->wait_s = wait_s - wait_before;
    step->disk = disk_since(&t->run, disk_before);
    return OK;
}

/* On a GPU the next step is queued before this one's numbers are waited for: the GPU never waits for the host. Where
 * steps overlap it is so everywhere: no stage waits for the others' loss and norm. Not across an evaluation, which
 * wants the weights as they are, nor the edge of a trace; and not where the host must see the gradients first. */
static bool may_start_another(const struct training *t) {
    const struct run *r = &t->run;
    const struct plan *p = &t->setup.plan;
    int64_t n = r->n_step;
    if (p->device != PLAN_DEVICE_CUDA && !run_overlaps(r)) return false;
    if (r->may_skip || p->spike_guard > 0 || t->stopping || t->ends || n >= p->steps) return false;
    return !train_evaluation_is_due(t, n) && !train_save_is_due(t, n) && !train_trace_is_due(t, n) &&
           !elastic_is_due(r, n);
}

/* The first step is left out, if there is another. */
static void note_profile(struct training *t, double step_s) {
    if (t->run.n_done == t->first_step + 1 && t->setup.plan.steps > t->run.n_done) {
        profile_restart(&t->run);
        return;
    }
    t->profiled++;
    t->profiled_s += step_s;
}

/* An asynchronous pipeline is empty, and workers of servers meet, when something else wants the weights; a request to
 * stop has to wait for what all ranks have begun. */
static void plan_flush(struct training *t) {
    struct run *r = &t->run;
    int64_t soon = r->n_step + versions_steps_to_flush(r);
    if (t->stopping && r->exec.since_flush > 0 && r->flush_at > soon) r->flush_at = soon;
    if (r->exec.since_flush > 0 || !(r->schedule.n_frames || r->loop.step)) return;
    for (r->flush_at = r->n_step + 1; r->flush_at < t->setup.plan.steps; r->flush_at++)
        if (train_evaluation_is_due(t, r->flush_at) || train_save_is_due(t, r->flush_at)) break;
}

/* Of a step that is finished: when the next one was started, or is about to be. */
static double start_of_next(const struct training *t) {
    return t->run.n_started ? t->started[t->run.n_done % STEPS_AHEAD].start_s : clock_s();
}

/* What this rank sent, inside its node and to other nodes: by hops and messages, as the ledgers know it. */
static void count_sent(const struct training *t, double sent[2]) {
    sent[0] = sent[1] = 0;
    for (int a = AXIS_SELF + 1; a < N_MESH_AXES; a++)
        for (int op = 0; op < N_COMM_OPS; op++)
            for (int between = 0; between < 2; between++)
                sent[between] += group_ledger(t->run.mesh.group[a])->entry[op].sent[between];
}

/* The step's own seconds: those in which this rank did not wait for another. */
static enum status watch_step(struct training *t, double start_s, double wait_before_s, const double sent_before[2],
                              double injected_s) {
    double bytes, wait_s, sent[2], spent_s = clock_s() - start_s;
    metrics_comm(&t->run.mesh, &bytes, &wait_s);
    count_sent(t, sent);
    wait_s -= wait_before_s;
    t->flight = (struct flight_step){t->run.n_step, spent_s - wait_s, wait_s,
                                     {sent[0] - sent_before[0], sent[1] - sent_before[1]}};
    flight_step_is(&t->flight);
    return train_watch_step(t, spent_s - wait_s, injected_s);
}

static enum status one_step(struct training *t) {
    double start = clock_s(), bytes_before, wait_before, sent_before[2];
    metrics_comm(&t->run.mesh, &bytes_before, &wait_before);
    count_sent(t, sent_before);
    double injected_s = train_watch_slow_down(t);
    const struct started *step = &t->started[t->run.n_done % STEPS_AHEAD];
    plan_flush(t);
    if (t->run.n_started == 0) TRY(start_step(t));
    if (may_start_another(t)) TRY(start_step(t));
    TRY(run_step_finish(&t->run));
    double step_s = run_overlaps(&t->run) ? start_of_next(t) - step->start_s : clock_s() - start;
    t->spent_s += step_s;
    note_profile(t, step_s);
    TRY(watch_step(t, start, wait_before, sent_before, injected_s));
    return report_step(t, step_s, step);
}

/* Every quarter of a minute: how far, and how long still. */
static void tell_progress(struct training *t) {
    double now = clock_s(),
           done = (double)(t->run.n_done - t->first_step) / (double)(t->setup.plan.steps - t->first_step);
    if (!comm_is_rank_0() || now - t->told_s < 15 || done >= 1) return;
    t->told_s = now;
    int left = (int)((now - t->started_s) * (1 - done) / done);
    log_info("progress %.0f%%, about %d:%02d:%02d left", 100 * done, left / 3600, left / 60 % 60, left % 60);
}

static enum status train(struct training *t) {
    t->started_s = t->told_s = clock_s();
    TRY(train_watch_begin(t));
    TRY(train_guard_begin(t));
    while (t->run.n_done < t->setup.plan.steps) {
        bool went_back;
        TRY(train_trace(t, false));
        TRY(train_guard(t, one_step(t), &went_back));
        if (went_back) continue;
        TRY(train_poll_save(t, false));
        if (train_save_is_due(t, t->run.n_done)) TRY(train_save(t));
        if (elastic_is_due(&t->run, t->run.n_done)) TRY(optim_rows_settle(&t->run));
        TRY(elastic_keep(&t->run));
        TRY(train_agree_to_stop(t));
        if (train_evaluation_is_due(t, t->run.n_done)) TRY(train_evaluate(t));   /* after the save */
        if (train_may_leave(t)) {
            TRY(train_trace(t, true));
            TRY(train_watch_end(t));
            return train_leave(t);
        }
        TRY(train_end_epoch(t));
        tell_progress(t);
    }
    TRY(train_watch_end(t));
    t->stopping = false;                                             /* too late to stop before the end */
    return train_trace(t, true);
}

/* ---- after the last ---- */
/* Of this process, or of the time since the ranks have changed; launch --max-restarts says it of all attempts. */
static void print_goodput(const struct training *t, int64_t steps) {
    char advice[256];
    double total_s = clock_s() - t->epoch_s, setup_s = t->started_s - t->epoch_s;
    printf("goodput %.1f%%%s: %.2f s in steps, of %.2f s; %.2f s set-up and loading, %.2f s stopped for %" PRId64
           " saves, %.2f s evaluation and others\n",
           100 * t->spent_s / total_s, t->epoch_s > t->born_s ? " since the ranks have changed" : "", t->spent_s,
           total_s, setup_s, t->stalls_s, t->n_saves,
           total_s - setup_s - t->spent_s - t->stalls_s);
    goodput_advice(t->n_saves ? t->stalls_s / (double)t->n_saves : 0, train_options(&t->setup.plan)->mtbf,
                   t->spent_s / (double)steps, advice, sizeof advice);
    if (*advice) printf("%s\n", advice);
}

static void summarise(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    int64_t steps = t->run.n_done - t->first_step;
    if (!comm_is_rank_0() || log_get_level() < LOG_INFO || steps <= 0) return;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double resident = (double)usage.ru_maxrss / 1024, planned = 0;
    for (enum role r = 0; r < N_ROLES; r++)
        planned += (double)(t->run.memory.bytes[TIER_DEVICE][r] + t->run.memory.bytes[TIER_HOST][r]) / (1 << 20);
    printf("done: %" PRId64 " steps in %.1f s, %.0f tok/s; rank 0 planned %.1f MiB, resident %.1f MiB, unaccounted "
                            "%.1f MiB (code, libraries, MPI)\n",
           steps, t->spent_s, (double)steps * (double)p->global_batch * (double)p->seq / t->spent_s, planned, resident,
           resident - planned);
    print_goodput(t, steps);
    if (t->run.schedule.validates)
        printf("optim-sync: %" PRId64 " of %" PRId64 " updates were guessed wrong and redone\n", t->run.n_redone,
               steps);
    if (p->profile)
        profile_print(&t->run, t->profiled, t->profiled_s, t->forecast.row_s ? &t->forecast : NULL, stdout);
    fflush(stdout);
}

static void release(struct training *t) {
    free(t->forecast.row_s);
    checkpoint_save_abandon(&t->saver);
    checkpoint_unlock(&t->lock);
    trace_destroy(&t->trace);
    trace_nvtx_end(&t->nvtx);
    train_watch_destroy(t);
    run_destroy(&t->run);
    metrics_close(&t->metrics);
    setup_fini(&t->setup);
    free(t);
}

/* All is done on all ranks when the last agreement is; then a death costs nothing any more, and who still waits in it
 * need not: before it rank 0 has said what was saved. A death that comes before it is an epoch like others, in which
 * there is little or nothing left to do. */
static enum status end_epoch(struct training *t, enum status status) {
    if (status == OK && t->stopping) status = comm_barrier(group_world());
    else if (status == OK) {
        status = report_side_failure(t);
        t->leaves_side_failure = status == E_IO || status == E_DATA;
    }
    if (status == OK) return comm_epoch_close();
    return status == E_EPOCH && comm_epoch_is_closed() ? OK : status;
}

static enum status one_epoch(struct training *t, struct train_asked *asked, bool *prepared) {
    enum status status = train_asked_agree(asked);
    if (status == OK) status = train_setup_of_epoch(asked, &t->setup, &t->from_memory);
    if (status == OK) status = train_prepare(t);
    deadline_lift();
    *prepared = status == OK;
    if (*prepared) status = train(t);
    return *prepared ? end_epoch(t, status) : status;
}

/* The ranks have changed: nothing of what they had is left. A rank that has read so in a file, and whose host hears
 * nothing of it, is cut off from the others. */
static enum status begin_again(struct training **t) {
    double born_s = (*t)->born_s, epoch_s = clock_s();
    if (!comm_epoch_has_changed() && !comm_epoch_changes())
        return FAIL(E_COMM, "the others go on in another epoch, of which this host has not heard");
    comm_epoch_leave();
    elastic_leave(&(*t)->run);
    release(*t);
    *t = calloc(1, sizeof **t);
    if (!*t) return FAIL(E_MEMORY, "no memory to begin again with");
    (*t)->born_s = born_s;
    (*t)->epoch_s = epoch_s;
    return train_enter_epoch();
}

int train_main(int argc, char **argv) {
    if (options_ask_for_help(argc, argv)) {
        struct plan plan;
        struct options *o;
        if (recipe_options_create(NULL, &plan, &o) == OK) options_help(o, stdout);
        options_destroy(&o);
        return 0;
    }
    stop_listen();
    signal(SIGXFSZ, SIG_IGN);                                        /* a file that may not grow is a failed write, as
                                                                      * on a full disk */
    deadline_set_for_start(argc, argv);
    struct training *t = calloc(1, sizeof *t);
    if (t) t->born_s = t->epoch_s = clock_s();
    struct train_asked asked = {.argc = argc, .argv = argv};
    enum status status = t ? limits_look_alone() : FAIL(E_MEMORY, "no memory to start with");
    if (status == OK && comm_is_spare()) train_asked_early(&asked);
    if (status == OK) status = comm_start(&argc, &argv);
    if (status == OK && comm_epoch() > 0) t->epoch_s = clock_s();   /* a spare has waited until now */
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
    /* a failure that all ranks have at the same place: they can leave together */
    bool together = !prepared || (status == E_NUMERIC && !t->run.loop.step) || t->leaves_unsaved;
    bool agreed = t->leaves_side_failure || (status != OK && together);
    if (agreed && prepared && !t->leaves_side_failure) status = fail_agree(t->run.mesh.group[AXIS_MESH], status);
    if (status == E_NUMERIC) (void)train_poll_save(t, true);         /* what is being saved is from before that */
    if (status != OK) status_report();                               /* nothing is left to report when the ranks
                                                                      * agreed */
    if (status == OK || t->leaves_side_failure) summarise(t);
    bool clean = status == OK || agreed;
    int code = status == OK && t->stopping ? EXIT_CHECKPOINTED : status_exit_code(status);
    if (clean) release(t);
    if (clean) setup_fini(&asked.setup);
    comm_finish(clean, code);
    return code;
}
