/* The update of params whose optimizer states are in host memory or in a file; see optim_offload.c. */
#pragma once

#include "lib/run/run.h"

/** Make the window's tables for a run whose memory is allocated. *out is NULL if nothing is offloaded.
 *  @errors E_MEMORY  @collective{none} */
enum status optim_offload_create(struct run *, struct optim_offload **out);
/** Wait for all transfers in flight, and free the tables. */
void optim_offload_destroy(struct run *, struct optim_offload **);

/** Update all offloaded params, and wait until the file has them. a: as in the device's update; its multiplier is read
 *  from the device, and if it is NaN, nothing changes. Does nothing, and returns OK, if nothing is offloaded.
 *  @collective{none} @errors E_IO, E_DEVICE, E_TIMEOUT */
enum status optim_offload_update(struct run *, const struct optimizer_settings *a);
