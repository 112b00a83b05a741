/* The streams of an epoch, from each rank to each other rank. See streams.c. No function blocks. */
#pragma once

#include "lib/comm/direct/job.h"
#include "lib/comm/direct/messages.h"

/* This process: a slot of the job, and, in the epoch that it has entered, a rank. */
struct own_self { struct own_job job; struct own_memory *memory; struct membership now; int rank; };

/** Listen for connections from other hosts, and publish the address in memory. Call it once; on a single host it does
 *  nothing. @errors E_COMM @collective{none} */
enum status own_streams_listen(const struct own_self *);
/** Begin to open the streams of this epoch; a process has one set at a time, and own_streams_meet completes it. self is
 *  borrowed until they are closed. @errors E_COMM, E_MEMORY @collective{none} */
enum status own_streams_open(const struct own_self *self);
/** Continue to open the streams. @return are all members on other hosts connected? @collective{none} */
bool own_streams_meet(void);
void own_streams_close(void);
/** The streams of each member, by rank. Borrowed. @collective{none} */
const struct own_wire *own_streams_wires(void);

/** Test whether this rank can read the memory of all other ranks of its host, and publish the result: only then large
 *  messages are lent to it. The other ranks have published their words before. @return NULL, or why it cannot
 *  @collective{none} */
const char *own_streams_try_to_read(void);

/** A rank that listens but is not connected yet; -1: none. @collective{none} */
int own_streams_missing(void);
/** A rank to which the connection has been lost; -1: none. @collective{none} */
int own_streams_lost(void);
/** Cut the connection to a rank (--chaos). For a rank of this host, which has no connection, it does nothing.
 *  @collective{none} */
void own_streams_cut(int rank);
