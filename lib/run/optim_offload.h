/* The update of params whose optimizer states are in host memory or in a file; see optim_offload.c. */
#pragma once

#include "lib/run/run.h"

/** The window's tables for a compiled run whose memory is there; with nothing offloaded, *out is NULL.
 *  @errors E_MEMORY  @collective{none} */
enum status optim_offload_create(struct run *, struct optim_offload **out);
/** Waits for what is in flight. */
void optim_offload_destroy(struct run *, struct optim_offload **);

/** Update all offloaded params, and wait until the file has them. a: as in the device's update; its multiplier is read
 *  from the device, and with NaN nothing is moved. OK if nothing is offloaded.
 *  @collective{none} @errors E_IO, E_DEVICE, E_TIMEOUT */
enum status optim_offload_update(struct run *, const struct optimizer_settings *a);
