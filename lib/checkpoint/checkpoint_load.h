/* The parts of a load, from files (checkpoint_load.c) or from other ranks' memory (snapshot.c). The manifest's shards
 * are open. Private to lib/checkpoint. */
#pragma once

#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_piece.h"

/** Load all tensors of the params, or only the weights. @errors E_FORMAT, E_IO, E_MEMORY, E_DEVICE 
 *  @collective{none} */
enum status checkpoint_load_params(struct run *, const struct manifest *, enum checkpoint_part);
/** Load the counts of steps, updates and samples, and the state of techniques. @errors E_FORMAT  @collective{none} */
enum status checkpoint_load_progress(struct run *, const struct manifest *);

/* Assembles a piece of a tensor from all files that have parts of it. Private to checkpoint*.c. */

/** Write the piece's elements to `to`, converted to dtype; padding is left as it is. The files must be open
 *  (manifest_open_shards).
 *  @errors E_FORMAT: elements are missing, of another shape, or not finite; E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_gather(const struct manifest *, const char *param, const char *array, const struct piece *,
                              enum dtype, void *to);
