/* Spares, and the last epoch of a job whose ranks may change (comm.h has the other functions). */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>

/** Before comm_start: is this process a spare, and none of the job's first ranks? Then comm_start may wait.
 *  @collective{none} */
bool comm_is_spare(void);
/** Print why this process cannot take part; its job goes on without it, as after a death. The process must end at once.
 *  Before comm_start, too.  @collective{none} */
void comm_withdraw(const char *why);

/** The number of ranks at the job's start, if they may change and its shape is not set yet (comm_epoch_shape); else 0.
 *  @collective{none} */
int comm_epoch_wants_shape(void);
/** Do the present algorithms support a world of n ranks? Pure. @collective{none} */
bool comm_world_suits(int n);

/** Has another epoch been opened? Then this rank may be no member of it, and must not write files that have one writer.
 *  @collective{none} */
bool comm_epoch_has_changed(void);
/** The same, for a rank that has lost a peer: waits up to three seconds for the agent to see the death.
 *  @collective{none} */
bool comm_epoch_changes(void);

/** Close the last epoch, when all ranks have finished: no epoch opens any more, and deaths do no harm. Either all ranks
 *  of an epoch find it closed, or none; a rank whose wait has ended with E_EPOCH meanwhile calls this, too.
 *  @return OK: it is closed, perhaps by another rank  @errors E_EPOCH: another one was opened before
 *  @collective{none} */
enum status comm_epoch_close(void);
/** Has a rank done so? @collective{none} */
bool comm_epoch_is_closed(void);
