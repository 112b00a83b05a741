/* Whole tensors of a checkpoint, for programs without a mesh: read them from the files of any layout, or write a
 * checkpoint of imported tensors.
 *
 * A checkpoint of imported tensors has only weights: a run may begin with it (--init, in any layout and precision), but
 * cannot resume from it (--resume). It has one file of tensors, written as in checkpoint.h: into an unfinished folder,
 * flushed, renamed. A process that is killed meanwhile leaves a folder that is never read. */
#pragma once

#include "lib/device/tensor.h"
#include "lib/checkpoint/checkpoint.h"

/* ---- reading ---- */

struct checkpoint_reader;

/** Open a step directory, or the one that `latest` names. Manifest, sizes, checksums and file headers are checked as in
 *  checkpoint_load. The caller closes *out. @errors E_DATA, E_FORMAT, E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_open(const char *path, struct checkpoint_reader **out);
void checkpoint_close(struct checkpoint_reader **);
/** The step directory. Borrowed. */
const char *checkpoint_folder(const struct checkpoint_reader *);
struct checkpoint_model checkpoint_model_of(const struct checkpoint_reader *);

/** The precision in which a weight is stored. If files disagree, the first one counts. @errors E_FORMAT: no file has
 *  it */
enum status checkpoint_weight_dtype(const struct checkpoint_reader *, const char *param, enum dtype *out);
/** Read a whole weight, converted to dtype. The global sizes of `shape` must match the files; its local part is
 *  ignored. @errors E_FORMAT: elements are missing or not finite, or it has another shape; E_IO, E_MEMORY
 *  @collective{none} */
enum status checkpoint_read_weight(const struct checkpoint_reader *, const char *param, const struct shape *,
                                   enum dtype, void *to);

/** Read a piece of a weight, converted to dtype. The piece's box must be the whole tensor.
 *  @errors as checkpoint_read_weight  @collective{none} */
enum status checkpoint_read_part(const struct checkpoint_reader *, const char *param, const struct piece *, enum dtype,
                                 void *to);

/* ---- writing: all weights are known before the first byte ---- */

struct checkpoint_writer;
struct checkpoint_weight { const char *param; struct shape shape; enum dtype dtype; };

/** Begin a weights-only checkpoint in the folder `save`, which is made if it does not exist. @errors E_CONFIG:
 *  checkpoints are there already; E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_weights_create(const char *save, const struct checkpoint_model *,
                                      const struct checkpoint_weight *weights, int n, struct checkpoint_writer **out);
/** The folder that is being written. Borrowed from the writer. */
const char *checkpoint_weights_folder(const struct checkpoint_writer *);
/** Append the next bytes of the weights, in the order of the list. @errors E_IO; E_INTERNAL: more than the list has */
enum status checkpoint_weights_append(struct checkpoint_writer *, const void *from, int64_t bytes);
/** Flush, rename the folder and make it the latest. *writer becomes NULL in any case. @errors E_IO; E_INTERNAL: bytes
 *  are missing */
enum status checkpoint_weights_finish(struct checkpoint_writer **writer);
/** Remove the unfinished checkpoint, and free the writer. */
void checkpoint_weights_abandon(struct checkpoint_writer **);
