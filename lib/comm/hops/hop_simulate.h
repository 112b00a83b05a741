/* The time of a table on given links, without running it.
 *
 * The model, which emulated links (comm_links.h) follow too. A message of s bytes occupies its sender's link for s b
 * seconds, as soon as all rows that it waits for are done and the link is free; then it has left, and the sender's
 * buffer is free. It also occupies the receiver's link for s b seconds, until it has left or until s b after the
 * message before it there, whichever is later; a latency after that it arrives. Links serve messages in the order in
 * which they come. So messages of many senders to one rank arrive one after the other (incast). Adding occupies the
 * rank for s g seconds; a message that arrives before a buffer is free (HOP_SLOTS) is added later. Ranks begin
 * together; the result is the time at which the last of them is done.
 *
 * A link: each rank has one for messages inside its node, and one for those between nodes, which with nic_per_node all
 * ranks of the node share. Each way has a link of its own. Source: Hockney 1994 (a + s b); the rest is counting. */
#pragma once

#include "lib/comm/hops/hops.h"

/** The time at which a message that is ready now has left, by its sender's link; and at which one that has left is
 *  through its receiver's link. free_at: the time until which the link is occupied, updated. */
double link_leave(double *free_at, double now, double busy_s);
double link_land(double *free_at, double left, double busy_s);

/** A row that has run: from when its message or its adding began until it was done. */
typedef void hop_visit(void *self, int rank, const struct hop_row *, double from_s, double to_s);

/** The seconds of all ranks' tables. visit may be NULL. Pure.
 *  @errors E_MEMORY; E_INTERNAL: tables that wait for each other */
enum status hop_simulate(const struct comm_algorithm *, const struct hop_shape *, int64_t element_bytes,
                         const struct hop_links *, hop_visit *visit, void *self, double *seconds);
