/* Getting a microbatch's data to the device; see exec_feed.c. */
#ifndef TRIVIUM_PROGRAM_EXEC_FEED_H
#define TRIVIUM_PROGRAM_EXEC_FEED_H

#include "lib/program/exec.h"

struct feed;

/** Pinned buffers for the batches of this program: as many as microbatches are in flight, at most FEED_SLOTS. On the
 *  CPU there is nothing to allocate. @errors E_MEMORY  @collective{none} */
enum { FEED_SLOTS = 32 };
enum status feed_create(const struct device *, const struct program *, int n_microbatches, struct feed **out);
void feed_destroy(struct feed **);

/** Have the hooks write a microbatch, and bring it to the device: each kind (B,T) int32 at `data`; NULL: not wanted. In
 *  order on the compute stream; the host waits only when all slots are still being read.
 *  @errors those of the hook; E_DEVICE, E_TIMEOUT  @collective{none} */
enum status feed_microbatch(struct feed *, const struct exec_hooks *, int microbatch, void *const data[N_DATA]);

#endif
