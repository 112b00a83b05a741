/* What an update changes, as it was before it: own weights, both moments and the master copy, side by side with them
 * (role optim). An update that turns out wrong is taken back to the bit. */
#ifndef TRIVIUM_RUN_SHADOW_H
#define TRIVIUM_RUN_SHADOW_H

#include "lib/run/run.h"

/** Places for it, before memory_plan_params. @errors E_INTERNAL  @collective{none} */
enum status shadow_add(struct program *);
/** Before the update. @collective{none} @errors E_DEVICE */
enum status shadow_take(struct run *);
/** All as it was. Other ranks' copies of own weights, which ZeRO keeps, follow when they are published again.
 *  @collective{none} @errors E_DEVICE */
enum status shadow_restore(struct run *);

#endif
