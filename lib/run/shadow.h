/* A copy of the state before an update: own weights, both moments and the master copy (role optim). Restoring the copy
 * undoes a wrong update to the bit. */
#pragma once

#include "lib/run/run.h"

/** Add the copy's arrays to the params, before memory_plan_params. @errors E_INTERNAL  @collective{none} */
enum status shadow_add(struct program *);
/** Copy the state, before the update. @collective{none} @errors E_DEVICE */
enum status shadow_take(struct run *);
/** Restore the state. Other ranks' copies of own weights (ZeRO) are corrected when they are published again.
 *  @collective{none} @errors E_DEVICE */
enum status shadow_restore(struct run *);
