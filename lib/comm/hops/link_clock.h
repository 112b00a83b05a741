/* Computes when the messages of one rank leave and arrive on emulated links, by the model of hop_simulate.h.
 *
 * It reads no clock and moves no bytes: its caller passes the time. comm_links.c passes the host's time.
 *
 * As in the simulation, a message lands when it has left its sender, even if its receiver has no free buffer yet. So
 * all messages must be announced (link_expect) before the first one begins. */
#pragma once

#include "lib/comm/hops/hop_walk.h"
#include <stdatomic.h>

enum { LINK_OUT, LINK_IN, LINK_WAYS };

/** The links of one rank, and the messages that it will receive over them. */
struct link_clock {
    const struct hop_links *links;            /* borrowed */
    _Atomic(uint64_t) *nic;                   /** [node LINK_WAYS + way]: shared NICs, bits of a double; borrowed */
    double own[2][LINK_WAYS];                 /* [between][way]: until when this rank's links are occupied */
    struct hop_ticket **expected;             /* messages that have not landed; the array is owned */
    int n_expected, room;
};
/** Free the array of expected messages, which is then empty. */
void link_clock_free(struct link_clock *);

/** Describe a message between a rank of `node` and a rank of `peer_node`: its links, and its time on each. */
void link_describe(const struct link_clock *, int node, int peer_node, int64_t bytes, struct hop_ticket *);
/** Send a message now: compute its stamp, the time at which it has left. */
void link_send(struct link_clock *, double now, struct hop_ticket *);
/** Announce a message that will be received. When the caller gets its sender's stamp, it stores the stamp and sets
 *  `stamped`. The ticket must stay at its address until it has landed. @errors E_MEMORY */
enum status link_expect(struct link_clock *, struct hop_ticket *);
/** Land all expected messages that have left by now: set `there`, their time of arrival. */
void link_land_all(struct link_clock *, double now);
