/* Checkpoints: a run's state in a directory, written in any layout, read in any other.
 *
 *   SAVE/step-00000120/   manifest.json                what run this is, where it is, and each file's size and checksum
 *                         rank-00000.safetensors ...   each rank's own elements: weights and both Adam moments
 *   SAVE/latest           one line: "step-00000120"
 *   SAVE/aside-1/         steps of another run that was here before (checkpoint_aside.c)
 *   SAVE/.lock            which job writes here; one at a time (checkpoint_lock.h)
 *
 * What is stored. Each element of each tensor once: by the rank whose own it is and that counts it
 * (lib/program/program.h). Of a param h0.qkv.w: "h0.qkv.w", the master weights where there are some, and the states of
 * the optimizer in its precision: "h0.qkv.w.exp_avg" and "h0.qkv.w.exp_avg_sq" of AdamW, "h0.qkv.w.momentum_buffer" of
 * SGD. The manifest has the settings under the optimizer's name, and another one does not go on from it. Padding of
 * the vocabulary is left out. A tensor that is a whole box of the global one has the box's shape; a run of one (ZeRO)
 * has one axis. Which box and which run is in
 * the file's metadata (piece.h), so that a file explains itself. Besides: the step, the number of updates (Adam's t),
 * the samples used so far, the seed, and what techniques keep: alike on all ranks (the loss scale) in the manifest, of
 * each rank (residuals) in its file (checkpoint_terms.h). Dropout, initial values and the order of samples follow from
 * seed and counters: there is no other random state.
 *
 * Where replicas train apart (dp_variants/local/) their weights are equal when a checkpoint is written, and the first
 * replica stores them, with "h0.qkv.w.outer_momentum". Moments differ: replica 2 has its own as "h0.qkv.w@2.exp_avg",
 * and the manifest says how many replicas. As many take each its own again; any other run takes their mean.
 *
 * Written so that a reader never sees half of it:
 *
 *   everybody   SAVE/.step-00000120/rank-*.safetensors, flushed to the disk
 *   all agree that all are there
 *   rank 0      manifest.json, flushed; the directory renamed to step-00000120; `latest` written to a new file,
 *               flushed, renamed
 *
 * A save that fails removes what it has written: a full disk gets no fuller. A job that is killed on the way leaves a
 * directory that begins with a dot, which no reader looks at. The next job that takes SAVE removes it, and so does the
 * next save. `latest` is renamed last: what it names is always whole.
 *
 * Or during training (--save-async), which then stands still for a copy in memory only:
 *
 *   everybody   at the edge of a step, a copy of its own elements (role "save", in host memory); a thread writes it,
 *               and training goes on
 *   later edges "are all files there?", one small all-reduce; when they are, rank 0's thread writes the manifest and
 *   gives the names
 *
 * The manifest has a checksum of its own members too. Version 1 had none, and is still read: damage in its numbers goes
 * unseen, unless they cannot be. Since version 3 it says what data the run was trained on (checkpoint_data.h). Programs
 * that know older versions alone refuse a newer one in one line.
 *
 * Read: the manifest; then each file's size and checksum, shared out over the ranks; then every rank takes from every
 * file the elements that it needs. In the same layout and precision that is bit for bit what was saved.
 *
 * Source for the files: safetensors.h. The names of the moments are PyTorch's (torch.optim.AdamW). */
#pragma once

#include "lib/checkpoint/checkpoint_model.h"
#include "lib/run/run.h"
#include <stdio.h>

enum { CHECKPOINT_VERSION = 3, CHECKPOINT_PATH_MAX = 1024 };

/** Write the state after the last finished step into `save` (made if need be), then remove all but the `keep` newest
 *  steps (0: none is removed). No other job may write there (checkpoint_lock.h). What was there before is untouched
 *  when it fails: every rank then has the same recorded line, nothing is printed, and training can go on.
 *  @collective{mesh} @errors E_IO with path and reason; E_CONFIG: too long a path; E_MEMORY */
enum status checkpoint_save(struct run *, const char *save, int64_t keep);

/** Is this step directory one of SAVE's? @collective{none} */
bool checkpoint_is_in(const char *step, const char *save);
/** Before the first save of a run: move the steps of other runs, whose numbers are above `mine` (-1: all of them), to
 *  SAVE/aside-N, and say so. mine: the step that this run has resumed from SAVE. By the rank that has the lock.
 *  @errors E_IO, E_CONFIG, as checkpoint_save; E_EPOCH: another rank 0 has the folder by now  @collective{none} */
enum status checkpoint_set_aside(const char *save, int64_t mine);

/* ---- the same during training ---- */
struct checkpoint_saver;                 /* a save in flight */
struct checkpoint_saved {
    bool ended;                          /* the step has its name, and `latest` names it */
    int64_t step;
    double save_s;                       /* from the start to the last byte, as this rank's thread saw it */
};

/** Copy the state after the last finished step, and let a thread write it. *out is NULL after a failure, which is every
 *  rank's as in checkpoint_save. One at a time.
 *  @collective{mesh} @errors as checkpoint_save; E_INTERNAL: no copy was planned */
enum status checkpoint_save_start(struct run *, const char *save, int64_t keep, struct checkpoint_saver **out);
/** At the edge of a step: has it ended? `wait`: until it has. When it has ended, well or not, *saver is NULL; after
 *  E_TIMEOUT and E_COMM the thread is left alone, and the process should end.
 *  @collective{mesh} @errors what any rank's thread met, the same on every rank; E_TIMEOUT, E_COMM */
enum status checkpoint_save_poll(struct checkpoint_saver **saver, bool wait, struct checkpoint_saved *out);
/** Wait for this rank's thread and forget the save; it stays unfinished on the disk. NULL is fine. Before run_destroy.
 *  @collective{none} */
void checkpoint_save_abandon(struct checkpoint_saver **);

/** The step directory that `path` means: itself, if it has a manifest; else what its `latest` names.
 *  @errors E_DATA: neither; E_FORMAT: `latest` does not name a directory next to it  @collective{none} */
enum status checkpoint_resolve(const char *path, char step[CHECKPOINT_PATH_MAX]);

/** The model that a step directory holds, for a caller that loads it without options for its sizes.
 *  @errors E_DATA, E_FORMAT: no manifest, or one that does not say  @collective{none} */
enum status checkpoint_model(const char *step, struct checkpoint_model *out);

/** Is a run, before it goes on from a step directory, trained on the same data, and with the same settings of the
 *  optimizer? Data that differ are refused without other_data, and logged with it. Of what does not
 *  change the samples, and of a checkpoint that does not say its data, rank 0 logs a line.
 *  @errors E_DATA: other data, another split, samples made in another way; as checkpoint_model  @collective{none} */
enum status checkpoint_check_data(const struct run *, const char *step, bool other_data);

enum checkpoint_part { CHECKPOINT_ALL, CHECKPOINT_WEIGHTS };

/** Take the state, or the weights alone, from a step directory: the weights of any seq if none has its length, else
 *  the first positions of a longer table (rank 0 logs it). After CHECKPOINT_ALL the next step is the one that
 *  would have followed. Every rank returns the same; after a failure the run must not be used.
 *  @collective{mesh} @errors E_DATA: a file is missing; E_FORMAT: another model's, cut off, damaged, with a weight that
 *  is not finite, or CHECKPOINT_ALL of a checkpoint of weights alone (checkpoint_tensor.h); E_IO, E_MEMORY */
enum status checkpoint_load(struct run *, const char *step, enum checkpoint_part);

/** What a checkpoint is of, its files, and its tensors with global shapes, as text; every file's checksum is compared.
 *  @errors as checkpoint_load  @collective{none} */
enum status checkpoint_inspect(const char *path, FILE *);
