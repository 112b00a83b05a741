/* A collective as a picture: a line a rank, time to the right; what it sends, what it adds, and the messages between.
 * */
#pragma once

#include "lib/comm/hops/hop_simulate.h"

/** Draw a simulated collective into the file. @errors E_IO; those of hop_simulate  @collective{none} */
enum status hop_chart(const struct comm_algorithm *, const struct hop_shape *, int64_t element_bytes,
                      const struct hop_links *, const char *path);
