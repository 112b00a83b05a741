/* Before the first step: can checkpoints be written where they belong? Better now than after a night. */
#pragma once

#include "lib/comm/comm.h"
#include <stdbool.h>
#include <stdint.h>

struct checkpoint_ready {
    double free_bytes;           /* that this user may still write there */
    double probe_s;              /* that all ranks together needed to write their probes, flush and see them */
};

/** Make the folder `save`; each rank writes probe_bytes into a file of its own there, flushed; sees rank 0's, so that
 *  it is one folder for all of them; and removes its own. The same result on every rank, by `agree`.
 *  @collective{world} @errors E_IO with path and reason: said already, as `agree` says it; E_CONFIG: a path with no
 *  room for the names of a checkpoint; E_MEMORY */
enum status checkpoint_ready(const char *save, int64_t probe_bytes, fail_agreement *agree,
                             struct checkpoint_ready *out);

/** Is there room for a checkpoint of this many bytes (it is written before an old one is removed), and for two? Pure.
 *  @errors E_IO: not even for one */
enum status checkpoint_room(const char *save, double free_bytes, double checkpoint_bytes, bool *tight);
