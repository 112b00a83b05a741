/* Emulated links, for the transport of comm_hops.c. Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"
#include "lib/comm/hops/link_clock.h"

/** Describe a message between this rank and a peer of the group: its links, and its time on each. */
void links_describe(struct hop_ticket *, const struct group *, int peer, int64_t bytes);
/** links_send: stamp a message that is sent now. links_has_left: has it left its link, so that its buffer is free? */
void links_send(struct hop_ticket *);
bool links_has_left(const struct hop_ticket *);
/** links_expect: announce a message that will be received (link_clock.h). links_expected: all announced messages that
 *  have not landed. @errors E_MEMORY */
enum status links_expect(struct hop_ticket *);
struct hop_ticket **links_expected(int *n);
/** links_land: after new stamps came, land the messages that have left. links_is_there: has this message arrived? */
void links_land(void);
bool links_is_there(const struct hop_ticket *);
