/* Memory over one step: the bytes of each role that are alive at every row, computed from the plan without a run.
 *
 * A value is alive from the row of its birth to the row of its death, both included (lib/program/lower.h). Between two
 * actions of a microbatch, the values that one action leaves for the other are alive. Always alive are params,
 * gradients, optimizer states, and the buffers of techniques and the run (struct memory_plan). So are the pipeline's
 * staging buffers, because the plan does not know when a message has left.
 *
 *   alive[role] <= planned bytes[role]        at every point
 *
 * The difference is memory lost to packing: alignment, holes that no value fits in, and frames, which stay allocated
 * from their first value to their last. */
#pragma once

#include "lib/program/memory.h"

enum { MEMORY_TIMELINE_POINTS = 4000000 };   /* limit; a point is one row of one microbatch, and about 64 bytes */

/* row: index in the action's tape; -1 for a send or receive. */
struct memory_point { int action, row; int64_t alive[N_ROLES]; };

struct memory_timeline {
    int n, n_actions;
    struct memory_point *points;         /* [n], by time: one per row of a compute action, one per send or receive */
    int *first;                          /* [n_actions]: index of the action's first point, if its tape has rows */
    int64_t resident[N_ROLES];           /* bytes that are always alive; included in every point */
};

/** The time line of a planned rank, for device memory only. Free with memory_timeline_fini, even after an error.
 *  @errors E_CONFIG beyond MEMORY_TIMELINE_POINTS; E_MEMORY  @collective{none} */
enum status memory_timeline_make(const struct program *, const struct chunk *chunks, const struct schedule *,
                                 const struct memory_plan *, struct memory_timeline *out);
void memory_timeline_fini(struct memory_timeline *);

/** The largest number of a role's bytes that are alive at the same time. */
int64_t memory_timeline_peak(const struct memory_timeline *, enum role);
