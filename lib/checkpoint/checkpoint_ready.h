/* A test before the first step: can checkpoints be written in the folder? Without it a run would fail hours later, at
 * its first save. */
#pragma once

#include "lib/comm/comm.h"
#include <stdbool.h>
#include <stdint.h>

struct checkpoint_ready {
    double free_bytes;           /* bytes that this user may still write there */
    double probe_s;              /* seconds for all ranks to write, flush and see their probes */
};

/** Make the folder `save`. Each rank writes probe_bytes into a file of its own there and flushes it, looks for rank 0's
 *  file to prove that all see the same folder, and removes its own file. `agree` gives every rank the same result.
 *  @collective{world} @errors E_IO with path and reason: printed already, by `agree`; E_CONFIG: a path with no room for
 *  the names of a checkpoint; E_MEMORY */
enum status checkpoint_ready(const char *save, int64_t probe_bytes, fail_agreement *agree,
                             struct checkpoint_ready *out);

/** Check that the disk has room for one checkpoint of this size. *tight: it has no room for two, which a save needs,
 *  because it removes an old checkpoint after it has written the new one. Pure.
 *  @errors E_IO: no room for one */
enum status checkpoint_room(const char *save, double free_bytes, double checkpoint_bytes, bool *tight);
