/* NCCL communicators with the stream that each runs on. Part of comm_nccl.c.
 *
 * NCCL has no tags, and runs what it is given on a stream in order; a send holds its stream until the peer receives. So
 * messages that may overtake each other need lanes of their own. Messages travel between neighbors in the ring of the
 * group's ranks, on four tags, the channels of a schedule: tags 0 and 3 to the next rank, 1 and 2 to the one before.
 * Edge e of the ring joins rank e and the next; neighboring edges get different colours,
 *
 *   colour(e) = e mod 2, but 2 for the last edge of an odd ring         rank 0 --0-- 1 --1-- 2 --2-- (0)
 *
 * and each (tag, colour) has a lane. A lane of a rank then only ever sends or only ever receives, always with the same
 * peer, in the order of the calls: two ranks that both send before they receive cannot block each other, as they would
 * on one lane (an interleaved pipeline does just that). */
#pragma once

#include "lib/comm/comm_device.h"
#include "lib/device/cuda_try.h"

#include <nccl.h>

enum { LANE_TAGS = 4, LANE_COLOURS = 3 };

struct lane { ncclComm_t comm; cudaStream_t stream; };

struct lanes {                                   /* group->side */
    struct lane collectives;
    struct lane ring[LANE_TAGS][LANE_COLOURS];   /* only of groups that carry messages */
};

/** Bring up the lane of a group's collectives; or the ring's, and send a byte along each, so that NCCL connects the
 *  peers now and not in the middle of a step. Sets group->side. @collective{group} @errors E_COMM, E_DEVICE, E_MEMORY,
 *  E_TIMEOUT */
enum status lanes_open(struct group *);
enum status lanes_open_ring(struct group *, int first_tag);
/** Wait for what is in flight, within the deadline, and take the lanes down. @collective{group} */
void lanes_close(struct group *);
/** Take them down at once, with what is in flight. @collective{none} */
void lanes_abort(struct group *);

/** The lane of a call. @errors E_INTERNAL: a message in a group that carries none, not along the ring, or with another
 *  tag */
enum status lane_of(const struct group *, const struct comm_call *, struct lane **out);
/** What NCCL answered to a call on this lane, made final: communicators do not block (the deadline would not hold
 *  inside NCCL), so "in progress" is looked at until it is over. @errors E_COMM, E_TIMEOUT  @collective{none} */
enum status lane_settle(const struct group *, struct lane *, ncclResult_t, const char *what);
/** Has NCCL reported an error since? @errors E_COMM */
enum status lanes_check(const struct group *);
