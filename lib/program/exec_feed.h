/* Copies of microbatches to the device; see exec_feed.c. */
#pragma once

#include "lib/program/exec.h"

struct feed;

/** Allocate pinned buffers for the batches of this program: one for each microbatch in flight, at most FEED_SLOTS. On
 *  the CPU there is nothing to allocate. @errors E_MEMORY @collective{none} */
enum { FEED_SLOTS = 32 };
enum status feed_create(const struct device *, const struct program *, int n_microbatches, struct feed **out);
void feed_destroy(struct feed **);

/** Have the hooks write a microbatch, and copy it to the device: each kind, (B,T) int32, to data[kind]; NULL: this rank
 *  does not need that kind. The copy is queued on the compute stream. The host waits only when the device still reads
 *  all slots.
 *  @errors those of the hook; E_DEVICE, E_TIMEOUT  @collective{none} */
enum status feed_microbatch(struct feed *, const struct exec_hooks *, int microbatch, void *const data[N_DATA]);
