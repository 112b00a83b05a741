/* Views of `trivium show` that have a file each: types, mesh, and memory --params. */
#pragma once

#include "lib/run/run.h"

/* ---- how tensors are sharded over the mesh (show_types.c) ---- */
/** Check the types of every rank's program of a settled plan, because stages have different programs and shards depend
 *  on a rank's coordinates. Then print the types of one rank.
 *  @errors E_INTERNAL: names the first rank whose types do not fit, the tensor and the rewrite; E_CONFIG: as the
 *  techniques, or --check-types off; E_MEMORY  @collective{none} */
enum status show_types(const struct plan *, const struct recipe *, int rank);

/* ---- the groups of ranks that communicate in a layout, and their bytes (show_mesh.c) ---- */
/** Print the groups of every axis of a settled plan: their number, size and ranks, and the largest number of nodes in a
 *  group (nodes of 8 ranks, unless the plan has nodes). Also print the bytes that a rank sends along the axis in a step
 *  (by the bill, of the stage that sends most). JSON has all groups.
 *  @errors E_CONFIG from the techniques; E_MEMORY; E_IO  @collective{none} */
enum status show_mesh(const struct plan *, bool json);

/* ---- show memory --params N: bytes of N parameters on a rank, without a model (show_params.c) ---- */
/** Print the bytes of weights, gradients and optimizer states that one of dp replicas keeps of `params` parameters, by
 *  the formulas of zero/zero.h: no model, no activations, no padding. plan need not be settled.
 *  @errors E_CONFIG for options that are not in the formulas: tp, pp, offload  @collective{none} */
enum status show_params(const struct plan *, double params, bool json);
/** @return "fp32", ... of a settled plan  @collective{none} */
const char *show_precision(const struct plan *);
/** Write a page that draws these bytes for all four ZeRO stages. @errors as show_params; E_IO  @collective{none} */
enum status show_params_page(const struct plan *, double params, const char *dir, bool json);
