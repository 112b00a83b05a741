/* `trivium show memory`: the planned bytes of every rank, by role. */
#pragma once

#include "lib/run/plan.h"

/** Print a settled plan's bytes on devices, in host memory and on disk, and the activations that each kind of block
 *  keeps. For more than 64 ranks print one replica of each stage. JSON also has each rank's flops and bytes sent by
 *  axis, per step, and the "timeline" of `rank` (memory_chart.h; -1: no timeline).
 *  @errors the techniques'; E_MEMORY @collective{none} */
enum status show_memory(const struct plan *, bool json, int rank);
/** Write a page that draws a rank's bytes over a step, by role. @errors as show_memory; E_IO @collective{none} */
enum status show_memory_page(const struct plan *, int rank, const char *dir, bool json);
/** Fail as a run of this plan does, if a rank needs more than memory-limit.
 *  @errors E_MEMORY; the techniques' @collective{none} */
enum status show_memory_limit(const struct plan *);
