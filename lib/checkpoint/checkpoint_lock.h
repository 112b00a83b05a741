/* Which job may write into SAVE: one at a time. Two would replace and remove each other's steps, and each end with
 * code 0. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>

struct checkpoint_lock;

/** Make the folder `save`, take it for this process, and remove what earlier jobs have left unfinished there. By one
 *  rank of a job, before any rank writes. Waits up to two seconds: the job that has it may just be ending. From an
 *  older epoch of its own job it takes it at once, whether that rank 0 lives or not.
 *  @errors E_IO: another job has it, and which; it cannot be written; E_CONFIG: too long a path; E_MEMORY
 *  @collective{none} */
enum status checkpoint_lock(const char *save, struct checkpoint_lock **out);
/** Release it. NULL is fine. The end of the process, however it comes, does the same. */
void checkpoint_unlock(struct checkpoint_lock **);

/** Before rank 0 removes or renames anything in `save`. OK, too, if no job holds the lock.
 *  @errors E_EPOCH: a newer epoch of this job has taken it over; E_IO, E_CONFIG  @collective{none} */
enum status checkpoint_lock_check(const char *save);

/** Does the text of a lock name a process of this host that is still there? For file systems without locks. */
bool checkpoint_owner_lives(const char *text);
