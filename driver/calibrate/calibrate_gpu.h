/* Calibrate's measurements of a GPU besides the rows of models: copies, and an empty kernel. */
#pragma once

#include "lib/device/device.h"

/* Bytes a second, read and written for `copy` and `host_copy`; medians. */
struct gpu_speeds {
    double copy, up, down, host_copy;
    double launch_s;                     /* from one kernel of a full queue to the next */
    int64_t memory_bytes, used_bytes;    /* of the GPU; in use without ours */
    int ranks;                           /* that share it */
};

/** Times by events of the compute stream, each of several times. @param bytes of a copy
 *  @collective{none} @errors E_MEMORY, E_DEVICE */
enum status calibrate_gpu(const struct device *, int64_t bytes, struct gpu_speeds *out);
