/* Which ranks of a layout communicate, and how much: `trivium show mesh`. */
#ifndef TRIVIUM_DRIVER_SHOW_MESH_H
#define TRIVIUM_DRIVER_SHOW_MESH_H

#include "lib/run/plan.h"

/** Print the groups of every axis of a settled plan: how many, of how many ranks, which, over how many of the plan's
 *  nodes (8 ranks, where it has none) a group spreads; and the bytes that a rank sends along the axis in a step, by the
 *  bill (of the stage that sends most). JSON has all groups.
 *  @errors E_CONFIG from the techniques; E_MEMORY; E_IO  @collective{none} */
enum status show_mesh(const struct plan *, bool json);

#endif
