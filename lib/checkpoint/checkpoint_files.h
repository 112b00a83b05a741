/* Directories of checkpoints. Private to checkpoint*.c. Nothing here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"

/** SAVE/step-00000012, or with a dot before the name while it is being written; SAVE/.../rank-00003.safetensors.
 *  @errors E_CONFIG: longer than CHECKPOINT_PATH_MAX */
enum status checkpoint_step_path(const char *save, int64_t step, bool unfinished, char out[CHECKPOINT_PATH_MAX]);
enum status checkpoint_shard_path(const char *folder, int rank, char out[CHECKPOINT_PATH_MAX]);
enum status checkpoint_path(const char *folder, const char *name, char out[CHECKPOINT_PATH_MAX]);

/** The number in "step-00000012"; -1 for any other name. */
int64_t checkpoint_step_of_name(const char *name);

/** Make a folder and those above it, durably; there already is fine. @errors E_IO */
enum status checkpoint_make_folder(const char *path);
/** Remove a folder with the files in it; not there is fine. Folders in it are left, and then it is too. Of a link, only
 *  the link is removed. @errors E_IO */
enum status checkpoint_remove_folder(const char *path);
/** Write text to folder/name by way of a temporary file next to it: old or new, never half. Flushed. @errors E_IO */
enum status checkpoint_replace_text(const char *folder, const char *name, const char *text);
/** The n steps in SAVE, newest first; of the unfinished ones if `hidden`. The caller frees *steps. @errors E_IO */
enum status checkpoint_list_steps(const char *save, bool hidden, int64_t **steps, int *n);
/** Remove what killed jobs have left unfinished in SAVE: steps, probes, half a `latest`.
 *  @errors E_IO: some of it stays */
enum status checkpoint_remove_unfinished(const char *save);
/** Remove all but the `keep` newest steps in SAVE, and what was left unfinished, except the step `spare`.
 *  @errors E_IO: some of it stays */
enum status checkpoint_prune(const char *save, int64_t keep, int64_t spare);
