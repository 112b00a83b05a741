/* A training job of one rank. Private to train*.c. */
#pragma once

#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/comm/comm.h"
#include "lib/comm/flight/flight.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/checkpoint_lock.h"
#include "driver/train/metrics.h"
#include "lib/run/profile.h"
#include "lib/run/run.h"
#include "driver/train/spike.h"
#include "driver/train/step_meter.h"
#include "driver/train/straggler.h"
#include "lib/trace/trace.h"

/* ---- state of each file; other files may read it ---- */

/* train.c. Moments of clock_s(), and seconds. */
struct train_clock {
    double born_s;                       /* start of the process, from which --time-limit counts */
    double epoch_s;                      /* start of this epoch of an elastic job; in epoch 0 born_s */
    double started_s, told_s;            /* start of training; last line of progress */
    double spent_s;                      /* sum of the steps' seconds */
};

/* train_checkpoint.c: saves. */
struct train_saver {
    struct checkpoint_lock *lock;        /* rank 0, if the job saves */
    struct checkpoint_saver *writing;    /* --save-async: the save in flight, or NULL */
    int64_t step;                        /* the last saved or loaded step */
    int64_t n_saves, n_failures;
    double stall_s, stalls_s;            /* time in which training waited: for the last save; for all */
    double spent_at_begin_s, spent_s;    /* clock.spent_s at a save's begin; at the save of `step` */
    bool lacks_lock;                     /* on every rank: rank 0 did not get `lock` in this epoch */
    bool has_set_aside;                  /* steps of other runs are moved out of the folder */
    bool failed;                         /* the last save failed */
    bool leaves_unsaved;                 /* on every rank: the save at the job's end failed */
};

/* train_checkpoint.c: a request to save and leave. */
struct train_stop {
    bool agreed;                         /* all ranks have agreed to stop */
    int32_t asked;                       /* this rank got a request; in a COMM_MAX all-reduce: */
    struct comm_request asking;
};

/* train_checkpoint.c, rank 0: the first failure of metrics, trace or evaluation, and its message. */
struct train_side {
    enum status status;
    char why[OPTION_TEXT_MAX + 256];
    bool reported;                       /* rank 0 has reported it after the last step */
};

/* train_guard.c: --spike-guard. */
struct train_guard {
    struct spike spike;                  /* the losses so far */
    int64_t step, n_returns;             /* step of the last restored checkpoint; how often it was restored */
    int64_t n_rollbacks;                 /* restores of all checkpoints */
};

/* train_membership.c: the end of this epoch. */
struct train_epoch {
    bool ends;                           /* all ranks agree on the end */
    int32_t asked;                       /* this rank has seen the end; in a COMM_MAX all-reduce: */
    struct comm_request asking;
    bool from_memory;                    /* it continues from snapshots in memory (elastic/) */
};

/* train_trace.c: --nvtx, --trace. */
struct train_tracer {
    struct trace_nvtx *nvtx;             /* NULL: off */
    struct trace *trace;                 /* NULL: off, or already written */
    int64_t first, end;                  /* the traced steps [first, end), from 0 */
    bool runs;                           /* recording has started */
    int64_t n_rollbacks;                 /* the guard's, when recording started */
};

/* train_step.c: --profile. */
struct train_profile {
    int64_t n_steps;                     /* in the profile */
    double spent_s;                      /* in these steps */
    struct profile_forecast forecast;    /* row_s NULL: no --cluster */
};

struct training {
    struct setup setup;
    struct run run;
    const struct keeper *keeper;         /* snapshots in memory (--replicate-every); NULL: none */
    struct metrics metrics;
    struct flight_step flight;           /* progress for other processes (lib/comm/flight/flight.h) */
    struct step_meter started[STEPS_AHEAD];  /* of started steps, until all work is queued */
    struct train_watch *watch;           /* slow ranks (train_straggler.c) */
    struct train_clock clock;
    struct train_saver saver;
    struct train_stop stop;
    struct train_side side;
    struct train_guard guard;
    struct train_epoch epoch;
    struct train_tracer tracer;
    struct train_profile profile;
    double peak_flops;                   /* of the job, per second */
    int64_t mem_peak_bytes;              /* planned bytes of the rank that needs most */
    int64_t first_step;                  /* the step at which this process began */
};

/* ---- train_prepare.c ---- */

/* Make the run of an unsettled setup, ready for its first step. @collective{world} @errors of the called functions;
 * equal on all ranks, or agreed on (fail_agree) */
enum status train_prepare(struct training *);

/* ---- train_step.c ---- */

/* Finish the next step; rank 0 prints its numbers and adds them to the metrics. May start the step after it.
 * @collective{mesh} @errors of run_step_start, run_step_finish and train_watch_step */
enum status train_step(struct training *);

/* ---- train_summary.c ---- */

/* Rank 0 prints the run's last lines. @collective{none} */
void train_summarise(const struct training *);

/* ---- train_attention.c ---- */

/* Make the attention kernels' plans for this rank's rows on a GPU, so that the first step makes none. *text: whose
 * kernels run, borrowed until the next call. @errors E_CONFIG: the user chose cuDNN and it has no plan
 * @collective{none} */
enum status train_attention(const struct run *, const char **text);

/* ---- train_trace.c: --trace ---- */

/* Before the first step: allocate spans, check the file. @collective{world} @errors E_IO, E_MEMORY */
enum status train_trace_prepare(struct training *);
/* At the edge of a step: begin the trace if due; or end it, gather and write. `leaving`: after the job's last step.
 * @collective{world} @errors E_TIMEOUT, E_COMM */
enum status train_trace(struct training *, bool leaving);

/* Does the trace begin, or end, after step n_step? */
bool train_trace_is_due(const struct training *, int64_t n_step);

/* ---- train_straggler.c: slow ranks; --inject ---- */

/* Allocate memory, and check --inject. @errors E_CONFIG, E_MEMORY */
enum status train_watch_prepare(struct training *);
/* Before the first step: exchange the ranks' hosts. @collective{mesh} @errors E_TIMEOUT, E_COMM */
enum status train_watch_begin(struct training *);
/* --inject: wait, to slow this rank by the given factor. @return the seconds, which count as own time
 * @collective{none} */
double train_watch_slow_down(struct training *);
/* After a step: add this rank's own_s, with the injected part. Every 20 steps the ranks exchange their own times, and
 * rank 0 names the slow ones. @collective{mesh} @errors E_TIMEOUT, E_COMM, E_MEMORY */
enum status train_watch_step(struct training *, double own_s, double injected_s);
/* After the last step. @collective{mesh} @errors E_TIMEOUT, E_COMM */
enum status train_watch_end(struct training *);
void train_watch_destroy(struct training *);

/* ---- train_checkpoint.c ---- */

/* Rank 0: record a side failure: metrics or a trace cannot be written (E_IO), or an evaluation cannot read its samples
 * (E_DATA). Warn once and keep training; the job's exit code is the failure's. */
void train_pass_over(struct training *, enum status);

/* Load the checkpoint of --resume or --init, if given. @collective{world} @errors those of loading a checkpoint */
enum status train_take_checkpoint(struct training *);

/* In a new epoch, load the state from the ranks' snapshots. @collective{world} @errors of keeper.go_on */
enum status train_take_snapshots(struct training *);

/* Is the state after step n_step to be saved? */
bool train_save_is_due(const struct training *, int64_t n_step);
/* Save now. A failed save is reported and counted; it fails the job only if it is the last save.
 * @collective{world} @errors E_IO, E_CONFIG, E_MEMORY: the last save failed, on every rank; E_TIMEOUT, E_COMM */
enum status train_save(struct training *);
/* At the edge of a step: publish the checkpoint of --save-async if it is complete. `wait`: wait for its completion.
 * Failures as in train_save.
 * @collective{world} @errors as train_save */
enum status train_poll_save(struct training *, bool wait);

/* At the edge of a step: set stop.agreed on every rank if any rank got a request to stop, or --time-limit is over.
 * @collective{world, where there is a place to save} @errors E_IO: a request, and no --save */
enum status train_agree_to_stop(struct training *);
/* As train_agree_to_stop, between two batches of an evaluation: all ranks learn of the request a batch later.
 * @collective{world, where there is a place to save} @errors as train_agree_to_stop */
enum status train_listen(struct training *);
/* Have the ranks agreed to stop, and is no step in flight? (A started step must finish before the checkpoint.) */
bool train_may_leave(const struct training *);
/* Write the last checkpoint, and print the option that continues. @collective{world} @errors of train_save */
enum status train_leave(struct training *);


/* ---- train_evaluate.c ---- */

/* Is the model to be evaluated after step n_step? */
bool train_evaluation_is_due(const struct training *, int64_t n_step);
/* Evaluate, after the save of this step. A sample that cannot be read does not fail the training (train_pass_over). A
 * request to stop or the end of the epoch ends the evaluation early.
 * @collective{world} @errors E_TIMEOUT, E_COMM; of train_poll_save, train_agree_to_stop and train_hear_of_epoch */
enum status train_evaluate(struct training *);

/* ---- train_membership.c ---- */

/* Rank 0: send the lighthouse the numbers of replicas with which the job can run. @collective{none} */
void train_tell_shape(const struct training *);

/* At the edge of a step: if another epoch is planned, all ranks learn of it a step later, keep their state, and wait
 * for the new epoch. @return E_EPOCH in this case  @collective{world} @errors of keeper.drain */
enum status train_end_epoch(struct training *);

/* As train_end_epoch, between two batches of an evaluation: sets epoch.ends on every rank, a batch later.
 * @collective{world} @errors E_TIMEOUT, E_COMM */
enum status train_hear_of_epoch(struct training *);

/* ---- train_guard.c: --spike-guard ---- */

/* Before the first step: save, so that there is a checkpoint to restore. @collective{world} @errors of train_save */
enum status train_guard_begin(struct training *);
/* After each step, with its status: if its loss is a spike, or not finite, load the last checkpoint and skip the
 * samples since.  @return `status` if it does not restore a checkpoint  @collective{world} @errors of
 * checkpoint_load */
enum status train_guard(struct training *, enum status status, bool *went_back);
