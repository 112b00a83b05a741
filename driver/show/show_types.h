/* How every tensor lies over the mesh: `trivium show types`. */
#pragma once

#include "lib/run/run.h"

/** Check the types of every rank's program of a settled plan: stages of a pipeline have different ones, and shards lie
 *  where each rank's coordinates put them. Then print those of one rank.
 *  @errors E_INTERNAL: names the first rank whose types do not fit, the tensor and the rewrite; E_CONFIG: as the
 *  techniques, or --check-types off; E_MEMORY  @collective{none} */
enum status show_types(const struct plan *, const struct recipe *, int rank);
