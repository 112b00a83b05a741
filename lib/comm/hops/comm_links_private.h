/* Emulated links, for the transport of comm_hops.c. Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"
#include "lib/comm/hops/link_clock.h"

/** Describe a message between this rank and a peer of the group: its links, and the time on each. */
void links_describe(struct hop_ticket *, const struct group *, int peer, int64_t bytes);
/** It is sent now: its stamp. And may its sender's buffer be used again? */
void links_send(struct hop_ticket *);
bool links_has_left(const struct hop_ticket *);
/** A message will come (link_clock.h); those that have not landed. @errors E_MEMORY */
enum status links_expect(struct hop_ticket *);
struct hop_ticket **links_expected(int *n);
/** Those that have left land, now that stamps were looked for. And is one there? */
void links_land(void);
bool links_is_there(const struct hop_ticket *);
