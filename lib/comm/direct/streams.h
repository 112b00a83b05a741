/* The streams of an epoch, from each rank to each other rank. See streams.c. Nothing here waits. */
#pragma once

#include "lib/comm/direct/job.h"
#include "lib/comm/direct/messages.h"

/* This process: a slot of the job, and, in the epoch that it has entered, a rank. */
struct own_self { struct own_job job; struct own_memory *memory; struct membership now; int rank; };

/** Listen for calls from other hosts, and publish the address in memory. Call once; does nothing on a single host.
 *  @errors E_COMM  @collective{none} */
enum status own_streams_listen(const struct own_self *);
/** Begin to make the streams of this epoch, one set per process; own_streams_meet completes them. self is borrowed
 *  until they are closed. @errors E_COMM, E_MEMORY  @collective{none} */
enum status own_streams_open(const struct own_self *self);
/** Continue. @return whether all members on other hosts are reached  @collective{none} */
bool own_streams_meet(void);
void own_streams_close(void);
/** One for each member. Borrowed. @collective{none} */
const struct own_wire *own_streams_wires(void);

/** Publish whether large messages may be lent to this rank, that is, whether it can read the memory of all other ranks
 *  of its host, which have published their words by now. @return NULL, or why they may not  @collective{none} */
const char *own_streams_try_to_read(void);

/** A rank that is not reached yet, though it listens; -1: there is none. @collective{none} */
int own_streams_missing(void);
/** The rank to which a connection has been lost; -1: there is none. @collective{none} */
int own_streams_lost(void);
/** Cut the connection to a rank (--chaos). A rank of this host has none, and nothing is cut. @collective{none} */
void own_streams_cut(int rank);
