/* `launch --max-restarts N train --save DIR ...`: a job that dies is started again from its last checkpoint.
 *
 *   attempt --died--> is a restart of use? --> wait (backoff, doubled each time) --> the same words, with --resume DIR
 *   --> attempt
 *
 * Never after success (0), a checkpoint that was asked for (75), a bad request (2), or any signal to launch. Launch
 * gives up after MOST_STUCK restarts in a row without a new checkpoint: their cause stays.
 *
 * A loss that is not finite comes again, from the same state and samples, unless a bit has flipped. So a job that has a
 * checkpoint from before tries that step once more, on as many ranks. If it is not finite there again, or before, it is
 * divergence, and ends the job.
 *
 * The checkpoint is the one that DIR/latest names, if it was written since launch began: a folder may hold an older
 * run's. Until there is one, the job starts as its user has written it.
 *
 * Fewer ranks (--min-ranks M). A host that is gone, a rank that cannot be started and a rank that dies before the first
 * save look much the same from here, so there is one rule: an attempt that brought no new checkpoint is followed by one
 * with fewer ranks, if a layout with a smaller dp, the same tp and pp, and at least M ranks divides the batch. A host
 * is not taken off --host. */
#ifndef TRIVIUM_LAUNCH_RESTART_H
#define TRIVIUM_LAUNCH_RESTART_H

#include "launch/launch.h"
#include "lib/run/plan.h"
#include <stdint.h>

enum { LAUNCH_MOST_STUCK = 2 };

/** trivium launch: a job, started again as often as --max-restarts says. As launch.  @return the exit code */
int launch_main(int argc, char **argv);

/* ---- the decisions: pure ---- */

/* What DIR/latest names. */
struct launch_latest {
    char step[64];        /* "step-00000012"; "": there is none */
    int64_t written_ns;   /* when, by the file system's clock */
};
bool launch_is_newer(const struct launch_latest *now, const struct launch_latest *before);
/** Is it of this job (newer than at_start), and further than any before? Then *best is its step. A step that is saved
 *  again, as --spike-guard begins by doing, is none. *best: -1 at first. */
bool launch_is_further(const struct launch_latest *now, const struct launch_latest *at_start, int64_t *best);

enum launch_verdict_of_attempt { ATTEMPT_DONE /* or not to be repeated */, ATTEMPT_AGAIN, ATTEMPT_STUCK,
                                 ATTEMPT_NO_MORE, ATTEMPT_DIVERGED };
/** The step that an attempt ended at with E_NUMERIC; 0: it ended otherwise. */
int64_t launch_numeric_step(const struct launch_outcome *);
/** Of an attempt that ended at `step` with E_NUMERIC. before: the furthest that others did, 0: none; saved: is there a
 *  checkpoint of this job? */
enum launch_verdict_of_attempt launch_judge_numeric(int64_t step, int64_t before, bool saved, int n_restarts,
                                                    int max_restarts);
/** n_restarts: made so far. n_stuck: attempts in a row, this one included, that were restarts and brought no new
 *  checkpoint. */
enum launch_verdict_of_attempt launch_judge(const struct launch_outcome *, int n_restarts, int max_restarts,
                                            int n_stuck);

/** Seconds to wait before restart k = 0, 1, ...: base 2^k, at most LAUNCH_MOST_BACKOFF_S. */
double launch_backoff_s(double base, int k);

/** The most ranks, fewer than n_ranks and at least `least`, that the plan's tp, pp, batch and microbatch can use; 0:
 *  none. */
int launch_fewer_ranks(const struct plan *, int n_ranks, int least);

/* What is different from the user's words. */
struct launch_change {
    const char *resume;      /* NULL: nothing */
    int64_t dp;              /* 0: as it is */
};
/** The command with the change: --resume, --init and --dp of the user's that it replaces are gone, new ones are at the
 *  end. *out, n_out words, is owned (`free`), NULL at its end; the words are borrowed from the command and from the
 *  change, dp's text from dp_text. @errors E_MEMORY */
enum status launch_changed_words(char *const *command, int n_words, const struct launch_change *, char dp_text[24],
                                 char ***out, int *n_out);

/** "E_COMM, rank 2 of 4 on host a was killed by signal 9 (Killed)": code and sentence of an error line, without place
 *  and remedy. */
void launch_reason(const char *line, char *out, size_t size);

#endif
