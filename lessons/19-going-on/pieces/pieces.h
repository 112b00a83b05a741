/* The pieces that members lack when a new epoch opens, with senders and receivers: the contract of this exercise.
 *
 * An array of n elements is cut into one shard for each member of an epoch. Place i of m members has
 *
 *     elements [n i / m, n (i + 1) / m)
 *
 * and a shard may be empty. In epoch `from` each member has its own shard and a copy of its left neighbor's shard:
 * place i has a copy of the shard of place (i + m - 1) mod m. Epoch `now` has other members, in other places, perhaps
 * fewer. A member of both epochs still has both shards of `from`. A new member has no shard.
 *
 * Each member of `now` must get its shard of the new layout. Elements that the member already has, as owner or as a
 * copy, need no message. All other elements come from their owner in `from` if the owner is a member of `now`,
 * otherwise from the owner's right neighbor in `from`. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/membership/membership.h"

/* Elements first .. first + n - 1 of the whole array, from one process (slot) to another. */
struct transfer { int32_t from_slot, to_slot; int64_t first, n; };

/** The first of n elements in shard i of m. For i = m this is n. Requires n m < 2^62. @collective{none} */
int64_t pieces_first(int64_t n, int m, int i);

/** All transfers, sorted by the receiver's place in `now`, then by element; each has n > 0. Consecutive elements from
 *  one sender to one receiver are one transfer. out: room for `most`. from->n and now->n are at least 1.
 *  @errors E_DATA: neither the owner of a shard with elements nor the owner's right neighbor is a member of `now`:
 *  "shard 2 is gone: ...", with the two slots; E_INTERNAL: more than `most` transfers. *n_out is then 0.
 *  @collective{none} */
enum status pieces_plan(int64_t n, const struct membership *from, const struct membership *now, struct transfer *out,
                        int most,
                        int *n_out);
