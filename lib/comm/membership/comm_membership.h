/* The last epoch of a job whose ranks may change (comm.h has the others). */
#ifndef TRIVIUM_COMM_COMM_MEMBERSHIP_H
#define TRIVIUM_COMM_COMM_MEMBERSHIP_H

#include "lib/base/status.h"
#include <stdbool.h>

/** Before comm_start: is this process none of the job's first ranks, but one that may wait in there until it is needed?
 *  @collective{none} */
bool comm_is_spare(void);
/** This process cannot take part, and its job goes on without it, as if it had died: why is said. The process has to
 *  end at once. Before comm_start, too.  @collective{none} */
void comm_withdraw(const char *why);

/** How many ranks the job began with, if they may change, and its shape is not set yet (comm_epoch_shape); else 0.
 *  @collective{none} */
int comm_epoch_wants_shape(void);
/** Are the algorithms in force ones for a world of n ranks? Pure. @collective{none} */
bool comm_world_suits(int n);

/** Has another epoch been opened? Then this rank may be none of its members, and what it does to files that have one
 *  writer would be done to the new one's. @collective{none} */
bool comm_epoch_has_changed(void);
/** The same, for a rank that has lost a peer: waits up to three seconds, since the agent has to see its death first.
 *  @collective{none} */
bool comm_epoch_changes(void);

/** Everything is done, on all ranks: from here on no epoch opens any more, and a rank that dies has nothing left to do.
 *  Either all ranks of an epoch find it closed, or none: a rank whose wait has ended with E_EPOCH meanwhile asks, too.
 *  @return OK: it is closed, perhaps by another rank  @errors E_EPOCH: another one has been opened before
 *  @collective{none} */
enum status comm_epoch_close(void);
/** Has a rank done so? @collective{none} */
bool comm_epoch_is_closed(void);

#endif
