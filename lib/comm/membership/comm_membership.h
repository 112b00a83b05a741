/* Spares, and the last epoch of a job whose ranks may change (comm.h has the other functions). */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>

/** Before comm_start: is this process a spare, not one of the job's first ranks? If so, comm_start may wait until it is
 *  needed. @collective{none} */
bool comm_is_spare(void);
/** Print why this process cannot take part. Its job continues without it, as after a death, and the process must end at
 *  once. It may be called before comm_start. @collective{none} */
void comm_withdraw(const char *why);

/** The number of ranks at the job's start, if ranks may change and the shape is not set yet (comm_epoch_shape); else 0.
 *  @collective{none} */
int comm_epoch_wants_shape(void);
/** Do the algorithms in use support a world of n ranks? Pure. @collective{none} */
bool comm_world_suits(int n);

/** Has another epoch been opened? If so, this rank may not be a member of it, and must not write files that only one
 *  rank may write. @collective{none} */
bool comm_epoch_has_changed(void);
/** Like comm_epoch_has_changed, for a rank that has lost a peer: waits up to three seconds for the agent to see the
 *  death. @collective{none} */
bool comm_epoch_changes(void);

/** Close the last epoch after all ranks have finished: then no epoch can open, and a death does no harm. Either all
 *  ranks of an epoch find it closed, or none does. A rank whose wait has ended with E_EPOCH meanwhile must call this,
 *  too. @return OK: it is closed, perhaps by another rank @errors E_EPOCH: another epoch was opened before
 *  @collective{none} */
enum status comm_epoch_close(void);
/** Has a rank closed the last epoch? @collective{none} */
bool comm_epoch_is_closed(void);
