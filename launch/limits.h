/* What this machine does not let a job have, found before Open MPI and OpenBLAS stumble over it: they then hang, or
 * fill a page. */
#ifndef TRIVIUM_LAUNCH_LIMITS_H
#define TRIVIUM_LAUNCH_LIMITS_H

#include "lib/base/status.h"

/** Open files, file sizes, TMPDIR and shared memory for mpirun and n ranks on this host. Looked at when they are
 *  about to start; that a job outgrows them later is said where it happens.
 *  @errors E_IO, E_MEMORY: which limit, what it is, what is needed  @collective{none} */
enum status limits_look(int n_ranks);
/** The same for a process that starts MPI alone, without launch, mpirun or srun; nothing for others.
 *  @errors E_IO, E_MEMORY  @collective{none} */
enum status limits_look_alone(void);

#endif
