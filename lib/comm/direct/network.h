/* Streams to processes of other hosts: a TCP connection for each pair, which the one with the smaller slot makes.
 *
 * A process listens from its start to its end, on an address that it was given. When it enters an epoch it calls the
 * members with a greater slot, and is called by those with a smaller one, until it has a connection to each. A
 * connection is one only after the greeting, and strangers keep no member out (wire.h); its stream is sealed
 * (sealed.h). A call that is refused is made again; one without an answer for WIRE_GREETING_S seconds, too.
 *
 * Nothing here waits: own_network_step does what can be done now. Private to lib/comm. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/messages.h"
#include "lib/comm/direct/wire.h"
#include "lib/comm/membership/membership.h"

struct network;   /* opaque: the connections of an epoch */

/** Begin to meet the members of an epoch; far[r]: is member r on another host? address[slot]: where it listens; secret:
 *  the job's. All of them are borrowed until own_network_close. encrypts: as sealed.h has it.
 *  @errors E_MEMORY  @collective{none} */
enum status own_network_open(const struct membership *, int32_t slot, const bool *far,
                             const struct network_address *address,
                             const unsigned char *secret, bool encrypts, int listening, struct network **out);
/** Do what is possible without waiting. @return whether all members are connected  @collective{none} */
bool own_network_step(struct network *);
/** The streams of far member r, for own_messages, once all are connected. @collective{none} */
struct own_wire own_network_wire(struct network *, int r);
/** A far member that is not connected, though it has an address; -1: none. @collective{none} */
int own_network_missing(const struct network *);
/** A member whose stream has ended, -1: none. own_network_cut ends that of member r, as a failing network would.
 *  @collective{none} */
int own_network_lost(const struct network *);
void own_network_cut(struct network *, int r);
/** The number of callers shown out so far. @collective{none} */
int64_t own_network_shown_out(const struct network *);
void own_network_close(struct network **);
