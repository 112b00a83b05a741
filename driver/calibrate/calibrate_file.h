/* The measured speeds as a cluster file: fitted constants, each with its origin. */
#pragma once

#include "driver/calibrate/calibrate_measure.h"

/** Writes the cluster file, and reads it back as a check. Each rank of the world has a core or a GPU. *m gets the GPU's
 *  peak, and its ops in another order.  @collective{none} @errors E_IO; those of cluster_read */
enum status calibrate_write(const char *path, struct measured *, enum dtype);
