/* Folders and file names of checkpoints. Private to checkpoint*.c. No function here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"

/** The path SAVE/step-00000012, or SAVE/.step-00000012 while it is being written; and SAVE/.../rank-00003.safetensors.
 *  @errors E_CONFIG: longer than CHECKPOINT_PATH_MAX */
enum status checkpoint_step_path(const char *save, int64_t step, bool unfinished, char out[CHECKPOINT_PATH_MAX]);
enum status checkpoint_shard_path(const char *folder, int rank, char out[CHECKPOINT_PATH_MAX]);
enum status checkpoint_path(const char *folder, const char *name, char out[CHECKPOINT_PATH_MAX]);

/** The number in "step-00000012"; -1 for any other name. */
int64_t checkpoint_step_of_name(const char *name);

/** Make a folder and its parents, durably. It may exist already. @errors E_IO */
enum status checkpoint_make_folder(const char *path);
/** Remove a folder and the files in it; it need not exist. If it contains folders, these and the folder itself stay. If
 *  it is a link, only the link is removed. @errors E_IO */
enum status checkpoint_remove_folder(const char *path);
/** Write text to folder/name through a temporary file, flushed, so that readers see the old text or the new one.
 *  @errors E_IO */
enum status checkpoint_replace_text(const char *folder, const char *name, const char *text);
/** List the n steps in SAVE, newest first; `hidden`: the unfinished ones. The caller frees *steps. @errors E_IO */
enum status checkpoint_list_steps(const char *save, bool hidden, int64_t **steps, int *n);
/** Remove what killed jobs have left in SAVE: unfinished steps, probe files, a half-written `latest`.
 *  @errors E_IO: something could not be removed */
enum status checkpoint_remove_unfinished(const char *save);
/** Remove all but the `keep` newest steps in SAVE, and everything unfinished except the step `spare`.
 *  @errors E_IO: something could not be removed */
enum status checkpoint_prune(const char *save, int64_t keep, int64_t spare);

/* ---- what a published model says of tokens ---- */

/* Files in a step's folder that come from a published model's: a tokenizer's, as save_pretrained writes them, and the
 * ids of special tokens in its config.json. Only the first ones have a vocabulary, and only the last one is ours. */
enum { N_TOKEN_FILES = 12, N_VOCABULARIES = 5 };
extern const char *const checkpoint_token_files[N_TOKEN_FILES];
#define TOKEN_IDS "token_ids.json"

/** Copy a file, flushed. `to` must not exist. @errors E_DATA: no file to copy; E_IO */
enum status checkpoint_copy_file(const char *from, const char *to);
/** From now on steps that this process saves have the token files of the folder `step`. "": none. */
void checkpoint_carry_from(const char *step);
/** Put them into the folder of a step that will be called `final`; later steps take them from there. A file that cannot
 *  be put there is left out, with a warning. */
void checkpoint_carry(const char *unfinished, const char *final);
