/* NCCL communicators with the stream that each runs on. Part of comm_nccl.c.
 *
 * NCCL has no tags, and runs the operations on a stream in order; a send blocks its stream until the peer receives. So
 * messages that may overtake each other need separate *lanes*: a communicator and its stream. Messages go between
 * neighbors in the ring of the group's ranks, with four tags, the channels of a schedule: tags 0 and 3 to the next
 * rank, 1 and 2 to the previous one. Edge e of the ring joins rank e and the next rank; neighboring edges get different
 * colours,
 *
 *   colour(e) = e mod 2, but 2 for the last edge of an odd ring         rank 0 --0-- 1 --1-- 2 --2-- (0)
 *
 * and each (tag, colour) has a lane. On each lane a rank then either only sends or only receives, always with the same
 * peer, in the order of the calls. So two ranks that both send before they receive, as in an interleaved pipeline,
 * cannot block each other, as they would on one lane. */
#pragma once

#include "lib/comm/comm_device.h"
#include "lib/device/cuda_try.h"

#include <nccl.h>

enum { LANE_TAGS = 4, LANE_COLOURS = 3 };

struct lane { ncclComm_t comm; cudaStream_t stream; };

struct lanes {                                   /* group->side */
    struct lane collectives;
    struct lane ring[LANE_TAGS][LANE_COLOURS];   /* only in groups that carry messages */
};

/** lanes_open: make the lane of a group's collectives, and set group->side. lanes_open_ring: make the ring's lanes, and
 *  send a byte along each, so that NCCL connects the peers now and not in the middle of a step. @collective{group}
 *  @errors E_COMM, E_DEVICE, E_MEMORY, E_TIMEOUT */
enum status lanes_open(struct group *);
enum status lanes_open_ring(struct group *, int first_tag);
/** Wait for the operations in flight, until the deadline, and close the lanes. @collective{group} */
void lanes_close(struct group *);
/** Abort the lanes at once, with their operations in flight. @collective{none} */
void lanes_abort(struct group *);

/** The lane of a call. @errors E_INTERNAL: the call is a message that no lane takes, because the group has no lanes for
 *  messages, or the message does not go along the ring, or its tag is no lane's */
enum status lane_of(const struct group *, const struct comm_call *, struct lane **out);
/** Turn NCCL's result of a call on this lane into a final status. While the result is "in progress", query it again.
 *  (Communicators do not block, because our deadline would not hold inside NCCL.) @errors E_COMM, E_TIMEOUT
 *  @collective{none} */
enum status lane_settle(const struct group *, struct lane *, ncclResult_t, const char *what);
/** Has NCCL reported an error on a lane? @errors E_COMM */
enum status lanes_check(const struct group *);
