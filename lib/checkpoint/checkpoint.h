/* Checkpoints: a run's state in a directory, written in any layout, read in any other.
 *
 *   SAVE/step-00000120/   manifest.json                the run, its progress, and each file's size and checksum
 *                         rank-00000.safetensors ...   each rank's own elements: weights and both Adam moments
 *   SAVE/latest           one line: "step-00000120"
 *   SAVE/aside-1/         steps of an earlier run in this folder (checkpoint_aside.c)
 *   SAVE/.lock            names the one job that writes here (checkpoint_lock.h)
 *
 * Contents. Each element of each tensor is stored once, by the rank that owns the element and counts it
 * (lib/program/program.h). A param h0.qkv.w has "h0.qkv.w" (the master weights, if there are any) and the states of the
 * optimizer in its precision: "h0.qkv.w.exp_avg" and "h0.qkv.w.exp_avg_sq" for AdamW, "h0.qkv.w.momentum_buffer" for
 * SGD. The manifest has the optimizer's settings under its name, and a run with another optimizer cannot resume from
 * it. Padding of the vocabulary is left out. A tensor that is a whole box of the global one has the box's shape; a run
 * of elements (ZeRO) has one axis. The file's metadata record the box and the run (piece.h). The manifest also has the
 * step, the number of updates (Adam's t), the samples used so far, the seed, and techniques' state that all ranks share
 * (the loss scale). State of one rank (residuals) is in its file (checkpoint_terms.h). Dropout, initial values and the
 * order of samples follow from seed and counters, so there is no other random state.
 *
 * If replicas update independently (dp_variants/local/), their weights are equal when a checkpoint is written. The
 * first replica stores them, with "h0.qkv.w.outer_momentum". The moments differ: replica 2 stores "h0.qkv.w@2.exp_avg",
 * and the manifest has the number of replicas. In a run with the same number each replica loads its own moments; any
 * other run loads the mean.
 *
 * Written so that a reader never sees an incomplete checkpoint:
 *
 *   each rank   SAVE/.step-00000120/rank-*.safetensors, flushed to the disk
 *   all ranks   agree that all files are written
 *   rank 0      manifest.json, flushed; the directory renamed to step-00000120; `latest` written to a new file,
 *               flushed, renamed
 *
 * A save that fails removes its files, so that a full disk gets no fuller. A job that is killed during a save leaves a
 * directory that begins with a dot, which readers ignore. The next job that locks SAVE removes it, and so does the next
 * save. `latest` is renamed last, so that it always names a complete step.
 *
 * With --save-async a checkpoint is written during training, which pauses only for a copy in memory:
 *
 *   each rank   between two steps, copies its own elements (role "save", in host memory); a thread writes the copy
 *               while training goes on
 *   all ranks   between later steps, one small all-reduce: are all files written? If so, rank 0's thread writes the
 *               manifest and renames the directory
 *
 * The manifest also has a checksum of its own members. Version 1 has none and is still read; damage to its numbers
 * shows only if they become impossible. Since version 3 the manifest records the training data (checkpoint_data.h). A
 * program that reads only older versions refuses a newer one in one line.
 *
 * Loading: the ranks read the manifest and share the check of the files' sizes and checksums. Then every rank reads
 * from every file the elements that it needs. In the same layout and precision the loaded state equals the saved one.
 *
 * Source for the files: safetensors.h. The names of the moments are PyTorch's (torch.optim.AdamW). */
#pragma once

#include "lib/checkpoint/checkpoint_model.h"
#include "lib/run/run.h"
#include <stdio.h>

enum { CHECKPOINT_VERSION = 3, CHECKPOINT_PATH_MAX = 1024 };

/** Write the state after the last finished step into the folder `save`, then remove all but the `keep` newest steps (0:
 *  remove none). Creates the folder if needed; no other job may write there (checkpoint_lock.h). If the save fails, the
 *  older steps are untouched, every rank has the same error recorded, nothing is printed, and training can go on.
 *  @collective{mesh} @errors E_IO with path and reason; E_CONFIG: too long a path; E_MEMORY */
enum status checkpoint_save(struct run *, const char *save, int64_t keep);

/** Is this step directory in the folder SAVE? @collective{none} */
bool checkpoint_is_in(const char *step, const char *save);
/** Before the first save of a run: move the steps of other runs (numbers above `mine`; -1: all) to SAVE/aside-N, and
 *  log this. mine: the step from which this run has resumed. Called by the rank that has the lock.
 *  @errors E_IO, E_CONFIG, as checkpoint_save; E_EPOCH: another rank 0 has the folder now  @collective{none} */
enum status checkpoint_set_aside(const char *save, int64_t mine);

/* ---- saving during training ---- */
struct checkpoint_saver;                 /* a save in flight */
struct checkpoint_saved {
    bool ended;                          /* the step's folder has its name, and `latest` names it */
    int64_t step;
    double save_s;                       /* seconds from the start to the last byte, on this rank's thread */
};

/** Copy the state after the last finished step, and start a thread that writes the copy. A failure is every rank's, as
 *  in checkpoint_save, and then *out is NULL. Only one save may run at a time.
 *  @collective{mesh} @errors as checkpoint_save; E_INTERNAL: no copy was planned */
enum status checkpoint_save_start(struct run *, const char *save, int64_t keep, struct checkpoint_saver **out);
/** Between two steps: has the save ended? `wait`: wait until it has. After the end, with or without an error, *saver is
 *  NULL. After E_TIMEOUT and E_COMM the thread is left running, and the process should end.
 *  @collective{mesh} @errors of any rank's thread, the same on every rank; E_TIMEOUT, E_COMM */
enum status checkpoint_save_poll(struct checkpoint_saver **saver, bool wait, struct checkpoint_saved *out);
/** Wait for this rank's thread and forget the save, which stays unfinished on disk. Called before run_destroy; NULL is
 *  allowed.
 *  @collective{none} */
void checkpoint_save_abandon(struct checkpoint_saver **);

/** The step directory that `path` means: `path` itself, if it has a manifest; otherwise the directory that
 *  `path`/latest names.
 *  @errors E_DATA: neither; E_FORMAT: `latest` does not name a directory next to it  @collective{none} */
enum status checkpoint_resolve(const char *path, char step[CHECKPOINT_PATH_MAX]);

/** Read the model of a step directory, for a caller that loads the model without options for its sizes.
 *  @errors E_DATA, E_FORMAT: no manifest, or one without a model  @collective{none} */
enum status checkpoint_model(const char *step, struct checkpoint_model *out);

/** Before a run resumes from a step directory, compare its data and optimizer settings with the checkpoint's. Other
 *  data are an error, or with other_data a log line. Rank 0 logs differences that do not change the samples, and a
 *  missing record of the data.
 *  @errors E_DATA: other data, another split, samples made in another way; as checkpoint_model  @collective{none} */
enum status checkpoint_check_data(const struct run *, const char *step, bool other_data);

enum checkpoint_part { CHECKPOINT_ALL, CHECKPOINT_WEIGHTS };

/** Load the state, or only the weights, from a step directory. The checkpoint's seq may differ if no weight has that
 *  length; from a longer table of positions the first positions are loaded (rank 0 logs this). After CHECKPOINT_ALL the
 *  run continues with the next step. Every rank returns the same status; after a failure the run must not be used.
 *  @collective{mesh} @errors E_DATA: a file is missing; E_FORMAT: another model's, cut off, damaged, with a weight that
 *  is not finite, or CHECKPOINT_ALL of a weights-only checkpoint (checkpoint_tensor.h); E_IO, E_MEMORY */
enum status checkpoint_load(struct run *, const char *step, enum checkpoint_part);

/** Print as text: the kind of checkpoint, its files, and its tensors with global shapes. Every file's checksum is
 *  compared.
 *  @errors as checkpoint_load  @collective{none} */
enum status checkpoint_inspect(const char *path, FILE *);
