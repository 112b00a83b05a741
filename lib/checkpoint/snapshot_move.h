/* Moves bytes of snapshots between ranks while a load reads them (overview in snapshot.h). Private to
 * lib/checkpoint. */
#pragma once

#include "lib/checkpoint/snapshot.h"

struct snapshot_mover;
/** The set is borrowed. @errors E_MEMORY  @collective{none} */
enum status snapshot_mover_open(const struct snapshot_set *, struct snapshot_mover **out);
void snapshot_mover_close(struct snapshot_mover **);
/** Read the load's next bytes, from offset `at` of snapshot i. If they begin a window: @collective{world}
 *  @errors E_INTERNAL: not the recorded read; E_COMM, E_TIMEOUT, E_EPOCH, E_MEMORY */
enum status snapshot_mover_read(struct snapshot_mover *, int i, int64_t at, int64_t bytes, void *to);
/** Run `load` twice. It must make the same reads both times, and must not call a collective.
 *  @collective{world} @errors those of the load, on this rank alone; E_COMM, E_TIMEOUT, E_EPOCH, E_MEMORY */
enum status snapshot_mover_run(struct snapshot_mover *, enum status (*load)(void *self), void *self);
