/* The parts of a load, of files (checkpoint_load.c) or of what other ranks keep in memory (snapshot.c). The manifest's
 * shards are open. Private to lib/checkpoint. */
#pragma once

#include "lib/checkpoint/checkpoint_manifest.h"

/** All tensors of the params, or the weights alone. @errors E_FORMAT, E_IO, E_MEMORY, E_DEVICE  @collective{none} */
enum status checkpoint_load_params(struct run *, const struct manifest *, enum checkpoint_part);
/** Steps, updates and samples, and what techniques keep. @errors E_FORMAT  @collective{none} */
enum status checkpoint_load_progress(struct run *, const struct manifest *);
