/* The lock that lets only one job write into SAVE. Without it two jobs would replace and remove each other's steps, and
 * both would end with code 0. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>

struct checkpoint_lock;

/** Make the folder `save`, lock it for this process, and remove unfinished steps of earlier jobs. Called by one rank of
 *  a job, before any rank writes. It waits up to two seconds for a job that is ending. If an older epoch of its own job
 *  has the lock, it takes the lock over at once, even if that rank 0 still runs.
 *  @errors E_IO: another job (the message names it) has the lock, or writing fails; E_CONFIG: too long a path; E_MEMORY
 *  @collective{none} */
enum status checkpoint_lock(const char *save, struct checkpoint_lock **out);
/** Release the lock; NULL is allowed. The kernel also releases it when the process ends. */
void checkpoint_unlock(struct checkpoint_lock **);

/** Call it before rank 0 removes or renames anything in `save`. Also OK if no job holds the lock.
 *  @errors E_EPOCH: a newer epoch of this job has taken it over; E_IO, E_CONFIG  @collective{none} */
enum status checkpoint_lock_check(const char *save);

/** Does the lock's text name a process of this host that still runs? For file systems without locks. */
bool checkpoint_owner_lives(const char *text);

/* ---- The folder of the step that `latest` names.c. No function here is collective. ---- */

/** If a job died while it renamed a step that was saved again, give the step its name. Called by the job that has the
 *  folder, before it removes unfinished steps.
 *  @errors E_IO: it cannot be renamed, and stays where it is; or `latest` cannot be read; E_CONFIG */
enum status checkpoint_restore_name(const char *save);
