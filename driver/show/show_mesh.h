/* The groups of ranks that communicate in a layout, and their bytes: `trivium show mesh`. */
#pragma once

#include "lib/run/plan.h"

/** Print the groups of every axis of a settled plan: their number, size and ranks, and the largest number of nodes in a
 *  group (nodes of 8 ranks, unless the plan has nodes). Also print the bytes that a rank sends along the axis in a step
 *  (by the bill, of the stage that sends most). JSON has all groups.
 *  @errors E_CONFIG from the techniques; E_MEMORY; E_IO  @collective{none} */
enum status show_mesh(const struct plan *, bool json);
