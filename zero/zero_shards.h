/* The number of replicas that share a state, or a second copy: all, those of a node, or N. See zero_shards.c. */
#pragma once

#include "lib/run/technique.h"

/** mesh.shard, from the request and the mesh's dimensions. @errors E_CONFIG: a node has no fixed number of
 *  replicas, or the nodes are unknown  @collective{none} */
enum status zero_shards_settle(struct plan *);
/** Check a settled plan that asks for such a number. Pure. @errors E_CONFIG with value, limit and remedy */
enum status zero_shards_check(const struct plan *);
