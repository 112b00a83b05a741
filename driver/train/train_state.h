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
#include "lib/trace/trace_nvtx.h"

/* ---- each file's part; others may read it ---- */

/* train.c. Moments of clock_s(), and seconds. */
struct train_clock {
    double born_s;                       /* when the process began: --time-limit counts from here */
    double epoch_s;                      /* when this epoch of an elastic job began; before the first change, born_s */
    double started_s, told_s;            /* when training began; the last line of progress */
    double spent_s;                      /* in steps */
};

/* train_checkpoint.c: what is saved. */
struct train_saver {
    struct checkpoint_lock *lock;        /* rank 0, if the job saves */
    struct checkpoint_saver *writing;    /* --save-async: what is being written */
    int64_t step;                        /* the last that was saved, or loaded */
    int64_t n_saves, n_failures;
    double stall_s, stalls_s;            /* how long training has stood still: for the last save; for all */
    double spent_at_begin_s, spent_s;    /* seconds in steps: when a save began; when `step` was saved */
    bool lacks_lock;                     /* on every rank: rank 0 could not take it when this epoch began */
    bool has_set_aside;                  /* steps of other runs are out of the folder */
    bool failed;                         /* the last save */
    bool leaves_unsaved;                 /* on every rank: the job's last save failed */
};

/* train_checkpoint.c: a request to save and leave. */
struct train_stop {
    bool agreed;                         /* on every rank */
    int32_t asked;                       /* any rank was asked; its sum is in flight: */
    struct comm_request asking;
};

/* train_checkpoint.c, rank 0: the first failure of metrics, trace or evaluation, and its sentence. */
struct train_side {
    enum status status;
    char why[OPTION_TEXT_MAX + 256];
    bool reported;                       /* on every rank, after the last step */
};

/* train_guard.c: --spike-guard. */
struct train_guard {
    struct spike spike;                  /* the losses so far */
    int64_t step, n_returns;             /* the checkpoint that was restored last, and how often */
    int64_t n_rollbacks;                 /* of any checkpoint */
};

/* train_membership.c: the end of this epoch. */
struct train_epoch {
    bool ends;                           /* agreed on by every rank */
    int32_t asked;                       /* any rank has seen that it ends; the sum is in flight: */
    struct comm_request asking;
    bool from_memory;                    /* it goes on from snapshots in memory (elastic/) */
};

/* train_trace.c: --nvtx, --trace. */
struct train_tracer {
    struct trace_nvtx *nvtx;             /* NULL: off */
    struct trace *trace;                 /* until it is written; NULL: off, or written */
    int64_t first, end;                  /* the steps that it covers, from 0 */
    bool runs;                           /* it has been started: */
    int64_t n_rollbacks;                 /* the guard's then */
};

/* train_step.c: --profile. */
struct train_profile {
    int64_t n_steps;                     /* that it counts */
    double spent_s;                      /* in them */
    struct profile_forecast forecast;    /* row_s NULL: no cluster was named */
};

struct training {
    struct setup setup;
    struct run run;
    const struct keeper *keeper;         /* of the state after steps, in memory; NULL: none (--replicate-every) */
    struct metrics metrics;
    struct flight_step flight;           /* progress that others may read (lib/comm/flight/flight.h) */
    struct step_meter started[STEPS_AHEAD];  /* of steps, from their start until all is queued */
    struct train_watch *watch;           /* slow ranks (train_straggler.c) */
    struct train_clock clock;
    struct train_saver saver;
    struct train_stop stop;
    struct train_side side;
    struct train_guard guard;
    struct train_epoch epoch;
    struct train_tracer tracer;
    struct train_profile profile;
    double peak_flops;                   /* of the job, a second */
    int64_t mem_peak_bytes;              /* planned, of the rank that needs most */
    int64_t first_step;                  /* where this process began */
};

/* ---- train_prepare.c ---- */

/* From an unsettled setup to a run that is ready for its first step. @collective{world} @errors of what it
 * calls; alike on every rank, or agreed on (fail_agree) */
enum status train_prepare(struct training *);

/* ---- train_step.c ---- */

/* Finish the next step; rank 0 prints its numbers and adds them to the metrics. Another step may be started by then.
 * @collective{mesh} @errors of run_step_start, run_step_finish and train_watch_step */
enum status train_step(struct training *);

/* ---- train_summary.c ---- */

/* At the end, by rank 0. @collective{none} */
void train_summarise(const struct training *);

/* ---- train_attention.c ---- */

/* Whose kernels run the attention of this rank's rows, in words. On a GPU their plans are made here, so that none is
 * left to the first step. Borrowed, until the next call. @errors E_CONFIG: cuDNN was asked for by name and has no plan
 * @collective{none} */
enum status train_attention(const struct run *, const char **text);

/* ---- train_trace.c: --trace ---- */

/* Room for the spans, and a file that can be written; before the first step. @collective{world} @errors E_IO,
 * E_MEMORY */
enum status train_trace_prepare(struct training *);
/* At the edge of a step: begin, or end, gather and write. `leaving`: this was the last one.
 * @collective{world} @errors E_TIMEOUT, E_COMM */
enum status train_trace(struct training *, bool leaving);

/* Does the trace begin, or end, after step n_step? */
bool train_trace_is_due(const struct training *, int64_t n_step);

/* ---- train_straggler.c: slow ranks; --inject ---- */

/* Memory; is the --inject possible? @errors E_CONFIG, E_MEMORY */
enum status train_watch_prepare(struct training *);
/* Before the first step: exchange the ranks' hosts. @collective{mesh} @errors E_TIMEOUT, E_COMM */
enum status train_watch_begin(struct training *);
/* --inject: wait until this rank is as slow as injected. @return the seconds, which count as own time
 * @collective{none} */
double train_watch_slow_down(struct training *);
/* After a step: add this rank's own_s, with the injected part. Every 20 steps the ranks exchange their own times, and
 * rank 0 names the slow ones. @collective{mesh} @errors E_TIMEOUT, E_COMM, E_MEMORY */
enum status train_watch_step(struct training *, double own_s, double injected_s);
/* After the last step. @collective{mesh} @errors E_TIMEOUT, E_COMM */
enum status train_watch_end(struct training *);
void train_watch_destroy(struct training *);

/* ---- train_checkpoint.c ---- */

/* Rank 0: a side failure: metrics or a trace could not be written (E_IO), or an evaluation could not read its samples
 * (E_DATA). Warn once and keep training; the exit code reports it. */
void train_pass_over(struct training *, enum status);

/* Load the checkpoint of --resume or --init, if one is given. @collective{world} @errors of checkpoint_resolve and
 * checkpoint_load */
enum status train_take_checkpoint(struct training *);

/* In a new epoch, load the state from the ranks' snapshots. @collective{world} @errors of keeper.go_on */
enum status train_take_snapshots(struct training *);

/* Is the state after step n_step to be saved? */
bool train_save_is_due(const struct training *, int64_t n_step);
/* Save now. A failure is reported and counted; the job fails only if this is its last save.
 * @collective{world} @errors E_IO, E_CONFIG, E_MEMORY: the last save failed, on every rank; E_TIMEOUT, E_COMM */
enum status train_save(struct training *);
/* At the edge of a step: is the checkpoint of --save-async complete? `wait`: wait for it. Failures as in train_save.
 * @collective{world} @errors as train_save */
enum status train_poll_save(struct training *, bool wait);

/* At the edge of a step: has any rank been asked to stop, or is the time up? Then stop.agreed on every rank.
 * @collective{world, where there is a place to save} @errors E_IO: asked, and nowhere to save */
enum status train_agree_to_stop(struct training *);
/* The same between two batches of an evaluation: all ranks learn of the request a batch later.
 * @collective{world, where there is a place to save} @errors as train_agree_to_stop */
enum status train_listen(struct training *);
/* Was the job asked to stop, and is no step in flight? (A started step is finished before a checkpoint is made.) */
bool train_may_leave(const struct training *);
/* Write the last checkpoint, and print how to go on. @collective{world} @errors of train_save */
enum status train_leave(struct training *);


/* ---- train_evaluate.c ---- */

/* Is the model to be evaluated after step n_step? */
bool train_evaluation_is_due(const struct training *, int64_t n_step);
/* Evaluate, after the save of this step. A sample that cannot be read does not fail the training (train_pass_over). A
 * request to stop or the end of the epoch ends the evaluation early.
 * @collective{world} @errors E_TIMEOUT, E_COMM; of train_poll_save, train_agree_to_stop and train_hear_of_epoch */
enum status train_evaluate(struct training *);

/* ---- train_membership.c ---- */

/* Rank 0: tell the lighthouse which numbers of replicas the job can have. @collective{none} */
void train_tell_shape(const struct training *);

/* At the edge of a step: was the epoch asked to end for a planned one? All learn of it a step later, keep their state,
 * and wait for the new epoch. @return E_EPOCH then  @collective{world} @errors of keeper.drain */
enum status train_end_epoch(struct training *);

/* The same between two batches of an evaluation: sets epoch.ends on every rank, a batch later.
 * @collective{world} @errors E_TIMEOUT, E_COMM */
enum status train_hear_of_epoch(struct training *);

/* ---- train_guard.c: --spike-guard ---- */

/* Before the first step: saves, so that there is something to go back to. @collective{world} @errors of train_save */
enum status train_guard_begin(struct training *);
/* After each step, with its status: if its loss is a spike, or not finite, load the last checkpoint and skip the
 * samples since.  @return `status` if it does nothing, or can do no more  @collective{world} @errors of
 * checkpoint_load */
enum status train_guard(struct training *, enum status status, bool *went_back);
