/* Whole tensors of a checkpoint, for programs without a mesh: take them out of any layout's files, or make a checkpoint
 * of tensors that come from elsewhere.
 *
 * A checkpoint that is made so holds weights alone: a run may begin with it (--init, in any layout and precision), and
 * cannot go on with it (--resume). It is one file, written as checkpoint.h says: a temporary file, flushed, renamed; a
 * process killed on the way leaves a folder that is never read. */
#pragma once

#include "lib/device/tensor.h"
#include "lib/checkpoint/checkpoint.h"

/* ---- reading ---- */

struct checkpoint_reader;

/** Open a step directory, or what `latest` names. Manifest, sizes, checksums and file headers are checked as in
 *  checkpoint_load. The caller closes *out.  @errors E_DATA, E_FORMAT, E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_open(const char *path, struct checkpoint_reader **out);
void checkpoint_close(struct checkpoint_reader **);
/** The step directory. Borrowed. */
const char *checkpoint_folder(const struct checkpoint_reader *);
struct checkpoint_model checkpoint_model_of(const struct checkpoint_reader *);

/** In which precision a weight is stored; files that disagree: the first one's. @errors E_FORMAT: no file has it */
enum status checkpoint_weight_dtype(const struct checkpoint_reader *, const char *param, enum dtype *out);
/** The whole weight, its elements converted to dtype. Global sizes of `shape` must be those of the files; where a
 *  rank's place is in it plays no part.  @errors E_FORMAT: elements are missing or not finite, or it has another shape;
 *  E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_read_weight(const struct checkpoint_reader *, const char *param, const struct shape *,
                                   enum dtype, void *to);

/** A piece of it, of a box that is the whole tensor, its elements converted to dtype.
 *  @errors as checkpoint_read_weight  @collective{none} */
enum status checkpoint_read_part(const struct checkpoint_reader *, const char *param, const struct piece *, enum dtype,
                                 void *to);

/* ---- writing: all weights are known before the first byte ---- */

struct checkpoint_writer;
struct checkpoint_weight { const char *param; struct shape shape; enum dtype dtype; };

/** Begin a checkpoint of weights alone in the folder `save`, which is made if need be. @errors E_CONFIG: checkpoints
 *  are there already; E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_weights_create(const char *save, const struct checkpoint_model *,
                                      const struct checkpoint_weight *weights, int n, struct checkpoint_writer **out);
/** The next bytes of the weights, in the order of the list. @errors E_IO; E_INTERNAL: more than the list says */
enum status checkpoint_weights_append(struct checkpoint_writer *, const void *from, int64_t bytes);
/** Flush, give it its name and make it the latest. *writer becomes NULL in any case. @errors E_IO; E_INTERNAL: bytes
 *  are missing */
enum status checkpoint_weights_finish(struct checkpoint_writer **writer);
/** Leave nothing of it. */
void checkpoint_weights_abandon(struct checkpoint_writer **);
