/* Collectives on host memory by tables of hops, over MPI's messages. Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"
#include "lib/comm/hops/hops.h"

/** The algorithm for a call; NULL: the library's collective. The group's rule decides (comm_settings); without a rule,
 *  large sums and gathers go pairwise. The result is the same on every rank of the group. @errors E_CONFIG: the rule's
 *  algorithm cannot do the operation for this number of ranks, or on these nodes */
enum status comm_hops_choose(const struct group *, const struct comm_call *, const struct comm_algorithm **out);

/** Start a call by an algorithm. request->group must have a communicator.
 *  @collective{group; send and receive: its two ranks} @errors E_MEMORY, E_COMM */
enum status comm_hops_start(const struct comm_algorithm *, const struct comm_call *, struct comm_request *);

/** Drop all calls in flight; their buffers are not touched any more. @collective{none} */
void comm_hops_drop(void);

/** Advance every collective. Every wait calls this, since a peer may need the next rows of another collective.
 *  @collective{none} */
void comm_hops_progress(void);
