/* Views of `trivium show` that have a file each. */
#pragma once

#include "lib/base/option.h"
#include "lib/run/plan.h"
#include "lib/run/run.h"
#include <stdbool.h>

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

/* ---- show memory: the planned bytes of every rank, by role (show_memory.c) ---- */
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

/* ---- options of a view that it reads only together with another option (show_unread.c) ---- */
/* The requested part of a view: a page (out), JSON, states of a number (params), one operation (mib), a table of
 * bandwidths (crossings), rows of one algorithm (comm-algorithm). */
struct show_asked { bool out, json, params, mib, crossings, algorithm; };

/** Refuse the first given option that view `what` does not read. @errors E_USAGE @collective{none} */
enum status show_refuse_unread(const struct options *, const char *what, const struct show_asked *);

/** Refuse options that the formulas of `show memory --params` do not read. @errors E_USAGE @collective{none} */
enum status show_params_refuse_unread(const struct options *);
