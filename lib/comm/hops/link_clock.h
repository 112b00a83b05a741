/* When the messages of a rank leave and are there, on emulated links: the model of hop_simulate.h, a rank at a time.
 *
 * It reads no clock and moves no bytes: its caller says what time it is. For comm_links.c that is the host's.
 *
 * A message lands when it has left its sender, not when its receiver asks for it: the link of a rank that has no buffer
 * free yet is used all the same, as the simulation has it. So messages are expected before anything begins. */
#ifndef TRIVIUM_COMM_LINK_CLOCK_H
#define TRIVIUM_COMM_LINK_CLOCK_H

#include "lib/comm/hops/hop_walk.h"
#include <stdatomic.h>

enum { LINK_OUT, LINK_IN, LINK_WAYS };

/** One rank's links, and what will come over them. */
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
/** It will come. When its sender's stamp is known, the caller puts it there and says so (`stamped`). The ticket stays
 *  where it is until it has landed. @errors E_MEMORY */
enum status link_expect(struct link_clock *, struct hop_ticket *);
/** Land all expected messages that have left by now: `there` is when they may be looked at. */
void link_land_all(struct link_clock *, double now);

#endif
