/* A piece of a tensor, put together out of all the files that have parts of it. Private to checkpoint*.c. */
#pragma once

#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_piece.h"

/** The piece's elements in `to`, converted to dtype; padding is left as it is. The files are open
 *  (manifest_open_shards).
 *  @errors E_FORMAT: elements are missing, of another shape, or not finite; E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_gather(const struct manifest *, const char *param, const char *array, const struct piece *,
                              enum dtype, void *to);
