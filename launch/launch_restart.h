/* `launch --max-restarts N train --save DIR ...`: a job that dies is started again from its last checkpoint.
 *
 *   attempt --died--> does a restart help? --yes--> wait (backoff, doubled each time) --> attempt with the same options
 *   and --resume DIR
 *
 * There is no restart after success (0), a requested checkpoint (75), a bad request (2), or any signal to launch.
 * Launch gives up after LAUNCH_MOST_STUCK restarts in a row without a new checkpoint, because their cause persists.
 *
 * A loss that is not finite repeats from the same state and samples, unless a flipped bit caused it. So a job that has
 * a checkpoint tries that step once more, on the same number of ranks. If the loss is not finite again, at that step or
 * an earlier one, the job diverges and ends.
 *
 * The checkpoint is the one that DIR/latest names. It must be newer than the start of launch, because the folder may
 * hold an older run's. Without such a checkpoint the job starts with the user's options.
 *
 * Fewer ranks (--min-ranks M). Launch cannot distinguish a lost host, a rank that cannot be started and a rank that
 * dies before the first save, so one rule covers all three: after an attempt without a new checkpoint the next attempt
 * uses fewer ranks. Its dp is the next smaller one that divides the batch, with the same tp and pp and at least M
 * ranks.
 *
 * A host on which LAUNCH_HOST_FAILURES attempts failed is left out of --host or --hostfile, if the others have room for
 * all ranks, or with --min-ranks for fewer. */
#pragma once

#include "launch/launch.h"
#include "lib/base/option.h"
#include "lib/run/plan.h"
#include <stdint.h>

enum { LAUNCH_MOST_STUCK = 2, LAUNCH_HOST_FAILURES = 2 };

/** trivium launch: run a job, and restart it at most --max-restarts times. See launch().  @return the exit code */
int launch_main(int argc, char **argv);

/* ---- the decisions: pure ---- */

/* The checkpoint that DIR/latest names. */
struct launch_latest {
    char step[64];        /* "step-00000012"; "": there is none */
    int64_t written_ns;   /* time of DIR/latest, by the file system's clock */
};
bool launch_is_newer(const struct launch_latest *now, const struct launch_latest *before);
/** Is checkpoint `now` of this job (newer than at_start), and of a later step than *best? If so, *best becomes its
 *  step. A step that is saved again, as --spike-guard does first, does not count. *best: -1 at first. */
bool launch_is_further(const struct launch_latest *now, const struct launch_latest *at_start, int64_t *best);

enum launch_verdict_of_attempt { ATTEMPT_DONE /* or failed for good */, ATTEMPT_AGAIN, ATTEMPT_STUCK,
                                 ATTEMPT_NO_MORE, ATTEMPT_DIVERGED };
/** The step at which an attempt ended with E_NUMERIC; 0: the attempt ended otherwise. */
int64_t launch_numeric_step(const struct launch_outcome *);
/** The verdict on an attempt that ended at `step` with E_NUMERIC. before: the latest such step of earlier attempts, 0:
 *  none; saved: is there a checkpoint of this job? */
enum launch_verdict_of_attempt launch_judge_numeric(int64_t step, int64_t before, bool saved, int n_restarts,
                                                    int max_restarts);
/** The verdict on any other attempt. n_restarts: the number so far. n_stuck: restarts in a row without a new
 *  checkpoint, this attempt included. */
enum launch_verdict_of_attempt launch_judge(const struct launch_outcome *, int n_restarts, int max_restarts,
                                            int n_stuck);

/** Seconds to wait before restart k = 0, 1, ...: base 2^k, at most LAUNCH_MOST_BACKOFF_S. */
double launch_backoff_s(double base, int k);

/** The host that has failed: of a rank that was killed, ended without a reason, or reports E_DEVICE. Other errors
 *  blame no host, because the rank that reports one often only waits for another. host: "": none. */
void launch_failed_host(const struct launch_outcome *, char host[64]);
/** The most ranks, fewer than n_ranks and at least `least`, that the plan's tp, pp and batches can use; 0: none. */
int launch_fewer_ranks(const struct plan *, int n_ranks, int least);

/** Copy an error line's code and sentence: "E_COMM, rank 2 of 4 on host a was killed by signal 9 (Killed)". */
void launch_reason(const char *line, char *out, size_t size);

/* Config files are read once, so that a rank that is started later gets the same options as the first ones. */

/* at: n words, then NULL. The first word is borrowed; at and the other words are owned. */
struct settled_words { char **at; int n; };

/** Write a command with all options that a config file or the user has set, in the order of the option tables: "train",
 *  "--lr=0.01". command is borrowed. The caller frees *out.  @errors E_MEMORY  @collective{none} */
enum status launch_settle(char *command, const struct options *, struct settled_words *out);
void settled_words_free(struct settled_words *);

/** Change train's options for the next attempt. resume: the checkpoint folder that replaces the user's --resume and
 *  --init; NULL: keep these. dp: 0: keep the user's. @errors E_USAGE  @collective{none} */
enum status launch_change(struct options *, const char *resume, int64_t dp);
