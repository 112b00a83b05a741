/* Emulated links, for the carrier of comm_hops.c. Private to this folder. */
#ifndef TRIVIUM_COMM_COMM_LINKS_PRIVATE_H
#define TRIVIUM_COMM_COMM_LINKS_PRIVATE_H

#include "lib/comm/comm_backend.h"
#include "lib/comm/hop_walk.h"

/** Of a message of this rank with a peer of the group: which links it takes, and for how long. */
void links_describe(struct hop_ticket *, const struct group *, int peer, int64_t bytes);
/** It is sent now: its stamp. And may its sender's buffer be used again? */
void links_send(struct hop_ticket *);
bool links_has_left(const struct hop_ticket *);
/** It has come, with its stamp: is it there? The ticket stays where it is until it is. @errors E_MEMORY */
enum status links_receive(struct hop_ticket *, bool *there);

#endif
