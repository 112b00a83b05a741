/* Calibrate's measurements of a GPU that need no model: copies, and an empty kernel. */
#pragma once

#include "lib/device/device.h"

/* Medians, in bytes per second. `copy` and `host_copy` count bytes read and bytes written. */
struct gpu_speeds {
    double copy, up, down, host_copy;
    double launch_s;                     /* from one kernel of a full queue to the next */
    int64_t memory_bytes, used_bytes;    /* of the GPU; used by the context and other programs */
    int ranks;                           /* that share the GPU */
};

/** Time copies and empty kernels by events of the compute stream. @param bytes of a copy
 *  @collective{none} @errors E_MEMORY, E_DEVICE */
enum status calibrate_gpu(const struct device *, int64_t bytes, struct gpu_speeds *out);
