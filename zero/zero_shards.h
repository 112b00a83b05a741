/* The number of replicas that share a state or a second copy: all, those of a node, or as given. See zero_shards.c. */
#pragma once

#include "lib/run/technique.h"

/** Set mesh.shard from the options and the mesh's dimensions. @errors E_CONFIG: the nodes differ in their number of
 *  replicas, or are unknown  @collective{none} */
enum status zero_shards_settle(struct plan *);
/** Check --shard or --zero-secondary of a settled plan. Pure. @errors E_CONFIG with value, limit and remedy */
enum status zero_shards_check(const struct plan *);
