/* The measured speeds as a cluster file: fitted constants, each with its origin. */
#pragma once

#include "driver/calibrate/calibrate_measure.h"

/** Write the cluster file, and read it back as a check. Each rank of the world has a core or a GPU. The call sets the
 *  GPU's peak in *m, and sorts its ops.  @collective{none} @errors E_IO; those of cluster_read */
enum status calibrate_write(const char *path, struct measured *, enum dtype);
