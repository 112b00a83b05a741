/* Which pieces are missing: senders and receivers when a new epoch opens, and the contract of this exercise.
 *
 * An array of n elements is cut into as many shards as an epoch has members: place i of an epoch of m members has
 *
 *     elements [n i / m, n (i + 1) / m)
 *
 * of which some may be empty. In epoch `from` each member has its own shard, and a copy of its left neighbor's: place i
 * has copies of place (i + m - 1) mod m. In epoch `now` there are other members, in other places, perhaps fewer. The
 * members of `now` that were members of `from` still have both. Those that were not have nothing.
 *
 * Each member of `now` must get its shard of the new layout. A member that has an element of it already, as owner or as
 * a copy, needs no message. All other elements come from the owner in `from`, if that is a member now, else from the
 * owner's right neighbor. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/membership/membership.h"

/* Elements first .. first + n - 1 of the whole array, from one process (slot) to another. */
struct transfer { int32_t from_slot, to_slot; int64_t first, n; };

/** Where shard i of m begins, of n elements; i = m: n. No product overflows: n m < 2^62. @collective{none} */
int64_t pieces_first(int64_t n, int m, int i);

/** All transfers, sorted by the receiver's place in `now`, then by element; n > 0 in each. Elements that follow each
 *  other, from one sender to one receiver, are one transfer. out: room for `most`. from->n and now->n are at least 1.
 *  @errors E_DATA: the owner of a shard that has elements and its right neighbor are both no members now: "shard 2 is
 *  gone: ...", with the two slots; E_INTERNAL: more than `most` transfers. Then *n_out is 0.  @collective{none} */
enum status pieces_plan(int64_t n, const struct membership *from, const struct membership *now, struct transfer *out,
                        int most,
                        int *n_out);
