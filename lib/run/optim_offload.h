/* AdamW for a param whose optimizer states are in host memory while its gradient is on a GPU; see optim_offload.c. */
#ifndef TRIVIUM_RUN_OPTIM_OFFLOAD_H
#define TRIVIUM_RUN_OPTIM_OFFLOAD_H

#include "lib/ops/adamw.h"
#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Update one param's own elements with states in host memory. `a` is that of the device's update: its multiplier is
 *  read from the device. Waits for the device.  @collective{none} @errors E_MEMORY, E_DEVICE */
enum status optim_offload_update(struct run *, const struct adamw *a, const struct param *);

#ifdef __cplusplus
}
#endif
#endif
