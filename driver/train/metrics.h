/* A step's numbers: one line for people, one JSON object a line for programs. Rank 0 writes; the others hold a closed
 * file. */
#pragma once

#include "lib/run/run.h"
#include <stdio.h>

struct metrics_row {
    int64_t step, steps;               /* 1-based, of how many */
    double loss, grad_norm, lr, step_s;
    double tokens_per_s, mfu, flops_per_token;
    int64_t mem_peak_bytes;            /* planned bytes of the rank that needs most */
    double comm_bytes, comm_s;         /* this rank's, over all groups: on the wire; waiting */
    int64_t parked_bytes;              /* this rank's: to host memory and back */
    double bubble_s;                   /* this rank's wait for its pipeline neighbors */
    bool skipped;
    double loss_scale;
    int64_t tokens_seen;
    bool emulated;                     /* nodes or links that are not real: seconds are not, either */
    bool on_disk;                      /* something is offloaded to a file: */
    struct disk_traffic disk;          /* this rank's, of the step */
    bool experts;                      /* of these: */
    double aux_loss, expert_load, dropped;   /* struct run */
};

struct metrics {
    FILE *file;
    char *path;                        /* owned; NULL: no file */
    bool appends;                      /* to rows of earlier runs; else these get another name (metrics_file.c) */
    bool is_new, has_begun;            /* there was no file before; there is a row of this run */
    bool cut_off;                      /* the last row is there in part */
};

/* append: after the file's rows. take_over: ignore the lock of a rank that this job has replaced. */
struct metrics_manner { bool append, take_over; };
/** Open a file and lock it. It is unchanged until the first row: then the rows of an earlier run get another name
 *  (metrics-1.jsonl of metrics.jsonl), unless the new ones are appended. Waits up to two seconds for another job's end.
 *  path "": no file.
 *  @errors E_USAGE with path and reason; E_IO: the disk is full or fails, or another job writes it;
 *  E_MEMORY  @collective{none} */
enum status metrics_open(struct metrics *, const char *path, struct metrics_manner);
/** Removes a new file that has no row. */
void metrics_close(struct metrics *);
/** Before a row is written. Private to metrics*.c. @return false: see errno */
bool metrics_begin(struct metrics *);

/** Append a training row / an evaluation row, flushed. Doubles as %.17g, NaN and infinity as null. After a failure the
 *  next row is tried again, on a line of its own. A pipe without a reader is a failure too, and no SIGPIPE.
 *  @errors E_IO with path and reason */
enum status metrics_step(struct metrics *, const struct metrics_row *);
enum status metrics_evaluation(struct metrics *, int64_t step, double val_loss, double val_auc);
/* The guard against spikes went back to a checkpoint (driver/train/train_guard.c). */
struct metrics_rollback { int64_t step; double loss, limit; int64_t to_step, first_sample, n_samples; };
/** `step spike_loss spike_limit rolled_back_to skipped_first_sample skipped_samples`. @errors E_IO */
enum status metrics_rollback(struct metrics *, const struct metrics_rollback *);
/** A row of a checkpoint: `step save_ms stall_ms save_failures` (from start to end; the time that training stood still
 *  for it; failures so far, with this one). @errors E_IO */
enum status metrics_save(struct metrics *, int64_t step, double save_s, double stall_s, int64_t failures);

/** `step 12/2000 | loss 2.3107 | norm 0.83 | lr 6.00e-04 | 41.2 ms | 49710 tok/s | mfu 38.1% | mem 412 MiB`, and ` |
 *  scale 65536` when the loss is scaled, ` | emulated`, ` | aux 0.0100 load 1.31 dropped 2.1%` with experts. To
 *  standard output. */
void metrics_print(const struct metrics_row *);

/** One group's ledger over all operations, since it was made: algorithm bytes that this rank sent, seconds that it
 *  waited, and what its hops and messages sent. The rest is 0. */
struct ledger_entry metrics_ledger(const struct group *);
