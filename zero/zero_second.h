/* A second copy of gathered weights, kept within a node for backward. See zero_second.c. */
#pragma once

#include "lib/run/run.h"

/** If the plan has second shards, add one, as an array, to each param that both forward and backward gather.
 *  @errors E_MEMORY  @collective{none} */
enum status zero_second_mark(const struct compiled *, struct program *);
/** The axis of the ranks that share a second copy; AXIS_SELF: the param has none. After the rewrite. Pure. */
enum mesh_axis zero_second_axis(const struct param *, const struct mesh_place *);
/** The second shard; NULL: the param has none. Pure. */
const struct param_array *zero_second_of(const struct param *);
/** Does this gather, in forward or in backward, read second shards? Pure. */
static inline bool zero_second_serves(const struct param *w, bool forward) { return !forward && zero_second_of(w); }

/** Keep this rank's part of `whole`, a weight that was just gathered (padded_n elements). @errors E_DEVICE
 *  @collective{none} */
enum status zero_second_keep(struct run *, const struct param *, const void *whole);
/** An update makes second shards invalid. In tests, fill them with NaN. @errors E_DEVICE  @collective{none} */
enum status zero_second_forget(struct run *);
