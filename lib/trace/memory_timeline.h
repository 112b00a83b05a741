/* Memory over one step: how many bytes of each role are alive at every row, read off the plan; nothing has to run.
 *
 * A value is alive from the row in which it is born to the row in which it dies, both included (lib/program/lower.h).
 * Between two actions of a microbatch live those of its values that cross from one to the other. Params, gradients and
 * optimizer states are always there; so are, because the plan cannot know when a message has left, the pipeline's
 * staging buffers, and what techniques and the run keep (struct memory_plan).
 *
 *   alive[role] <= planned bytes[role]        at every point
 *
 * The two differ by what packing wastes: alignment, holes that no value fits in, and frames, which are kept whole from
 * their first value to their last. */
#pragma once

#include "lib/program/memory.h"

enum { MEMORY_TIMELINE_POINTS = 4000000 };   /* no time line has more: a point is a row of a microbatch, and 64 bytes */

/* row: of the action's tape; -1: a send or a receive, which has none. */
struct memory_point { int action, row; int64_t alive[N_ROLES]; };

struct memory_timeline {
    int n, n_actions;
    struct memory_point *points;         /* [n], in time: per action of the schedule a point per row, or one */
    int *first;                          /* [n_actions]: its first point; an action with an empty tape has none */
    int64_t resident[N_ROLES];           /* part of every point: what is alive from start to end */
};

/** The time line of a planned rank: device memory only. Free with memory_timeline_fini, also after an error.
 *  @errors E_CONFIG beyond MEMORY_TIMELINE_POINTS; E_MEMORY  @collective{none} */
enum status memory_timeline_make(const struct program *, const struct chunk *chunks, const struct schedule *,
                                 const struct memory_plan *, struct memory_timeline *out);
void memory_timeline_fini(struct memory_timeline *);

/** The most that is alive at once of a role. */
int64_t memory_timeline_peak(const struct memory_timeline *, enum role);
