/* Bytes of snapshots that other ranks have, brought while a load reads them (snapshot.h tells the story). Private to
 * lib/checkpoint. */
#pragma once

#include "lib/checkpoint/snapshot.h"

struct snapshot_mover;
/** The set is borrowed. @errors E_MEMORY  @collective{none} */
enum status snapshot_mover_open(const struct snapshot_set *, struct snapshot_mover **out);
void snapshot_mover_close(struct snapshot_mover **);
/** The next bytes that the load reads: from `at` of snapshot i. Where they begin a window: @collective{world}
 *  @errors E_INTERNAL: not what it noted; E_COMM, E_TIMEOUT, E_EPOCH, E_MEMORY */
enum status snapshot_mover_read(struct snapshot_mover *, int i, int64_t at, int64_t bytes, void *to);
/** Run `load` twice; what it reads in between, and how often, must be the same, and it must be no collective.
 *  @collective{world} @errors those of the load, on this rank alone; E_COMM, E_TIMEOUT, E_EPOCH, E_MEMORY */
enum status snapshot_mover_run(struct snapshot_mover *, enum status (*load)(void *self), void *self);
