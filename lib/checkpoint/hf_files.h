/* Tensors by name in one safetensors file, or in several with an index, as Hugging Face's save_pretrained leaves them:
 *
 *   model.safetensors                      or    model-00001-of-00003.safetensors ...
 *                                                model.safetensors.index.json: {"weight_map": {"name": "file"}}
 *   with either: config.json
 *
 * A path means a folder with one of the two (if it has both, the file, as in transformers), the file, or the index. A
 * folder with an adapter is refused. The files may be hostile: see safetensors.h; an index may only name files in its
 * own folder. No function here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/safetensors.h"

/* ---- reading ---- */

struct hf_files;
struct hf_tensor { const struct safetensors *file; const struct safetensors_entry *entry; };

/** Open all files. The caller closes *out.
 *  @errors E_DATA: no such file; E_FORMAT: a bad index, or an adapter; those of safetensors_open; E_MEMORY */
enum status hf_files_open(const char *path, struct hf_files **out);
void hf_files_close(struct hf_files **);
/** The path of the file or index that was opened. Borrowed. */
const char *hf_files_path(const struct hf_files *);
/** Tensors in all files. */
int hf_files_n(const struct hf_files *);
struct hf_tensor hf_files_at(const struct hf_files *, int i);
/** Find a tensor by name. entry NULL: no file has it. */
struct hf_tensor hf_files_find(const struct hf_files *, const char *name);

/** The path of config.json in the folder that `path` means. @errors E_CONFIG: too long */
enum status hf_config_path(const char *path, char out[CHECKPOINT_PATH_MAX]);

enum { HF_MODEL_TYPE_MAX = 64 };
/** The model_type in config.json, next to the files that a path means: "llama"; "": there is no config.json, or no type
 *  in it. @errors E_FORMAT: no JSON, an adapter; E_DATA: weights of another kind; E_CONFIG: too long a path */
enum status hf_model_type(const char *path, char out[HF_MODEL_TYPE_MAX]);

/* ---- writing: all tensors are known before the first byte ---- */

struct hf_writer;

/** Create the file at `path`. If the tensors have more than shard_bytes (0: no limit), create files of at most that
 *  size and an index: path "a/model.safetensors" gives "a/model-00001-of-00002.safetensors". No file may exist. A
 *  tensor larger than the limit has a file of its own. entries: as safetensors_create's.
 *  @errors those of safetensors_create; E_CONFIG: a path that is too long or, for several files, does not end in
 *  .safetensors; E_MEMORY */
enum status hf_files_create(const char *path, struct safetensors_entry *entries, int n, int64_t shard_bytes,
                            struct hf_writer **out);
/** Append the next bytes, of one or more tensors. @errors as safetensors_append */
enum status hf_files_append(struct hf_writer *, const void *from, int64_t bytes);
/** Flush and close the last file, and write the index. *writer becomes NULL in any case. @errors E_IO, E_INTERNAL */
enum status hf_files_finish(struct hf_writer **writer);
/** Remove what was written. */
void hf_files_abandon(struct hf_writer **writer);
