/* `trivium show types`: how tensors are sharded over the mesh. */
#pragma once

#include "lib/run/run.h"

/** Check the types of every rank's program of a settled plan, because stages have different programs and shards depend
 *  on a rank's coordinates. Then print the types of one rank.
 *  @errors E_INTERNAL: names the first rank whose types do not fit, the tensor and the rewrite; E_CONFIG: as the
 *  techniques, or --check-types off; E_MEMORY  @collective{none} */
enum status show_types(const struct plan *, const struct recipe *, int rank);
