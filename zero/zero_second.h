/* A second copy of gathered weights, kept within a node for backward. See zero_second.c. */
#pragma once

#include "lib/run/run.h"

/** Give each param that is gathered in forward and again in backward a second shard, one array more, if the plan has
 *  second shards. @errors E_MEMORY  @collective{none} */
enum status zero_second_mark(const struct compiled *, struct program *);
/** The axis of the ranks that share a second copy: neighbors, while first shards are divided over all replicas;
 *  AXIS_SELF: the param has no second shard. After the rewrite. Pure. */
enum mesh_axis zero_second_axis(const struct param *, const struct mesh_place *);
/** The second shard; NULL: the param has none. Pure. */
const struct param_array *zero_second_of(const struct param *);
/** Does a gather in forward, or in backward, come from second shards? Pure. */
static inline bool zero_second_serves(const struct param *w, bool forward) { return !forward && zero_second_of(w); }

/** Keep this rank's part of a weight that has just been gathered, whole: padded_n elements. @errors E_DEVICE
 *  @collective{none} */
enum status zero_second_keep(struct run *, const struct param *, const void *whole);
/** Weights have changed: no second shard is valid until the next forward. In tests they are filled with NaN, so that a
 *  backward that reads one shows. @errors E_DEVICE  @collective{none} */
enum status zero_second_forget(struct run *);
