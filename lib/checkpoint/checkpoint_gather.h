/* Assembles a piece of a tensor from all files that have parts of it. Private to checkpoint*.c. */
#pragma once

#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_piece.h"

/** Write the piece's elements to `to`, converted to dtype; padding is left as it is. The files must be open
 *  (manifest_open_shards).
 *  @errors E_FORMAT: elements are missing, of another shape, or not finite; E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_gather(const struct manifest *, const char *param, const char *array, const struct piece *,
                              enum dtype, void *to);
