/* The time that a table takes on given links, without running it.
 *
 * The model, which emulated links (comm_links.h) also follow; b is s_per_byte, g is s_per_byte_added. A message of s
 * bytes occupies its sender's link for s b seconds, as soon as all rows that it waits for are done and the link is
 * free. Then it has left, and the sender's buffer is free. It also occupies the receiver's link for s b seconds, which
 * end when it has left, or s b after the end of the previous message on that link, whichever is later. It arrives one
 * latency later. Links serve messages in order, so messages of many senders to one rank arrive one after the other
 * (incast). Adding occupies the rank for s g seconds; a message that arrives before a buffer is free (HOP_SLOTS) is
 * added later. All ranks begin at the same time; the result is the time at which the last rank is done.
 *
 * Links: each rank has one for messages inside its node, and one for messages between nodes, which all ranks of the
 * node share with nic_per_node. Each direction has a link of its own. Source: Hockney 1994 (a + s b); the rest is
 * counting. */
#pragma once

#include "lib/comm/hops/hops.h"

/** link_leave: the time at which a message that is ready now has left its sender's link. link_land: the time at which a
 *  message that has left is through its receiver's link. *free_at: the time from which the link is free; updated. */
double link_leave(double *free_at, double now, double busy_s);
double link_land(double *free_at, double left, double busy_s);

/** Called for each row: its message or addition took from from_s to to_s. */
typedef void hop_visit(void *self, int rank, const struct hop_row *, double from_s, double to_s);

/** *seconds: the time until all ranks' tables are done. visit may be NULL. Pure. @errors E_MEMORY; E_INTERNAL: tables
 *  wait for each other */
enum status hop_simulate(const struct comm_algorithm *, const struct hop_shape *, int64_t element_bytes,
                         const struct hop_links *, hop_visit *visit, void *self, double *seconds);
