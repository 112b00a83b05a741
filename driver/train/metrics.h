/* A step's numbers: a line on the terminal, and a line with a JSON object in a file. Only rank 0 has an open file. */
#pragma once

#include "lib/run/run.h"
#include <stdio.h>

struct metrics_row {
    int64_t step, steps;               /* number from 1; number of all steps */
    double loss, grad_norm, lr, step_s;
    double tokens_per_s, mfu, flops_per_token;
    int64_t mem_peak_bytes;            /* planned bytes of the rank that needs most */
    double comm_bytes, comm_s;         /* this rank's, over all groups: bytes on the wire; waiting */
    int64_t parked_bytes;              /* this rank's, to host memory and back */
    double bubble_s, data_s;           /* this rank's wait for its pipeline neighbors; for its samples */
    int64_t data_late;                 /* with --data-ahead: samples that the thread had not read in time */
    bool skipped;
    double loss_scale;
    int64_t tokens_seen;
    bool emulated;                     /* emulated nodes or links: seconds are emulated, too */
    bool on_disk;                      /* state is offloaded to a file: disk is set */
    struct disk_traffic disk;          /* this rank's, of the step */
    struct run *run;                   /* its techniques add keys of their own (report); NULL: none */
    bool experts;                      /* the next three are set */
    double aux_loss, expert_load, dropped;   /* as in struct run */
};

struct metrics {
    FILE *file;
    char *path;                        /* owned; NULL: no file */
    bool appends;                      /* to rows of earlier runs; otherwise set these aside (metrics_file.c) */
    bool is_new, has_begun;            /* this run made the file; the file has a row of this run */
    bool cut_off;                      /* the file's last row is incomplete */
};

/* append: keep the file's rows. take_over: ignore the lock of a rank that this job has replaced. */
struct metrics_manner { bool append, take_over; };
/** Open a file and lock it. The file stays unchanged until the first row. Then, unless rows are appended, the file of
 *  an earlier run is renamed (metrics.jsonl to metrics-1.jsonl). Waits up to two seconds for the end of another job
 *  that has the lock. path "": no file.
 *  @errors E_USAGE with path and reason; E_IO: the disk is full or fails, or another job writes it;
 *  E_MEMORY  @collective{none} */
enum status metrics_open(struct metrics *, const char *path, struct metrics_manner);
/** Close the file; remove a new file without rows. */
void metrics_close(struct metrics *);
/** Call before a row is written. Private to metrics*.c. @return false on an error in errno */
bool metrics_begin(struct metrics *);

/** Append a training row or an evaluation row, and flush. Doubles are %.17g; NaN and infinity are null. After a failure
 *  the next row begins on a new line. A pipe without a reader is a failure, too, and raises no SIGPIPE.
 *  @errors E_IO with path and reason */
enum status metrics_step(struct metrics *, const struct metrics_row *);
enum status metrics_evaluation(struct metrics *, int64_t step, double val_loss, double val_auc);
/* The guard against spikes went back to a checkpoint (driver/train/train_guard.c). */
struct metrics_rollback { int64_t step; double loss, limit; int64_t to_step, first_sample, n_samples; };
/** `step spike_loss spike_limit rolled_back_to skipped_first_sample skipped_samples`. @errors E_IO */
enum status metrics_rollback(struct metrics *, const struct metrics_rollback *);
/** A row of a checkpoint: `step save_ms stall_ms save_failures` (time from start to end; time in which training waits
 *  for the save; failures so far, including this save's). @errors E_IO */
enum status metrics_save(struct metrics *, int64_t step, double save_s, double stall_s, int64_t failures);

/** Print `step 12/2000 | loss 2.3107 | norm 0.83 | lr 6.00e-04 | 41.2 ms | 49710 tok/s | mfu 38.1% | mem 412 MiB`; also
 *  ` | scale 65536` if the loss is scaled, ` | emulated`, and ` | aux 0.0100 load 1.31 dropped 2.1%` with experts. */
void metrics_print(const struct metrics_row *);

/** One group's ledger, summed over all operations: algorithm bytes that this rank sent, seconds of waiting, and bytes
 *  of its hops and messages. Other fields are 0. */
struct ledger_entry metrics_ledger(const struct group *);
