/* The times at which a rank's messages leave and arrive on emulated links: the model of hop_simulate.h, one rank at a
 * time.
 *
 * It reads no clock and moves no bytes: its caller passes the time. comm_links.c passes the host's.
 *
 * A message lands when it has left its sender, even if its receiver has no free buffer yet, as in the simulation. So
 * messages must be announced (link_expect) before anything begins. */
#pragma once

#include "lib/comm/hops/hop_walk.h"
#include <stdatomic.h>

enum { LINK_OUT, LINK_IN, LINK_WAYS };

/** One rank's links, and the messages that will come over them. */
struct link_clock {
    const struct hop_links *links;            /* borrowed */
    _Atomic(uint64_t) *nic;                   /** [node LINK_WAYS + way]: shared NICs, bits of a double; borrowed */
    double own[2][LINK_WAYS];                 /* [between]: until when this rank's links are occupied */
    struct hop_ticket **expected;             /* that have not landed; the array is owned */
    int n_expected, room;
};
/** The array of those expected; it is then empty. */
void link_clock_free(struct link_clock *);

/** Describe a message between a rank of `node` and one of `peer_node`: its links, and the time on each. */
void link_describe(const struct link_clock *, int node, int peer_node, int64_t bytes, struct hop_ticket *);
/** It is sent now: its stamp, when it has left. */
void link_send(struct link_clock *, double now, struct hop_ticket *);
/** Announce a message. When its sender's stamp is known, the caller stores it and sets `stamped`. The ticket's address
 *  is fixed until it has landed. @errors E_MEMORY */
enum status link_expect(struct link_clock *, struct hop_ticket *);
/** Land all expected messages that have left by now: sets `there`, the time of arrival. */
void link_land_all(struct link_clock *, double now);
