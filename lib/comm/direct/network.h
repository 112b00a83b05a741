/* Streams to processes of other hosts: a TCP connection for each pair, which the process with the smaller slot opens.
 *
 * A process listens from its start to its end, on a given address. When it enters an epoch, it calls the members with a
 * greater slot, and members with a smaller slot call it, until it has a connection to each. A connection counts only
 * after the greeting, and strangers cannot keep a member out (wire.h); its stream is sealed (sealed.h). A call that is
 * refused, or has no answer for WIRE_GREETING_S seconds, is repeated.
 *
 * No function blocks: own_network_step does what is possible at once. Private to lib/comm. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/direct/messages.h"
#include "lib/comm/direct/wire.h"
#include "lib/comm/membership/membership.h"

struct network;   /* opaque: the connections of an epoch */

/** Begin to connect the members of an epoch. far[r]: is member r on another host? address[slot]: where the slot
 *  listens; secret: the job's. All these are borrowed until own_network_close. encrypts: see sealed.h. @errors E_MEMORY
 *  @collective{none} */
enum status own_network_open(const struct membership *, int32_t slot, const bool *far,
                             const struct network_address *address,
                             const unsigned char *secret, bool encrypts, int listening, struct network **out);
/** Do what is possible without blocking. @return are all far members connected? @collective{none} */
bool own_network_step(struct network *);
/** The streams of far member r, for own_messages, after all members are connected. @collective{none} */
struct own_wire own_network_wire(struct network *, int r);
/** A far member that is not connected although it has an address; -1: none. @collective{none} */
int own_network_missing(const struct network *);
/** A member whose stream has ended; -1: none. own_network_cut ends the stream of member r, as a failing network would.
 *  @collective{none} */
int own_network_lost(const struct network *);
void own_network_cut(struct network *, int r);
/** The number of callers rejected so far. @collective{none} */
int64_t own_network_shown_out(const struct network *);
void own_network_close(struct network **);
