/* Checks the machine's limits before Open MPI and OpenBLAS run into them: they would hang, or print a page of
 * errors. */
#pragma once

#include "lib/base/status.h"

/** Open files, file sizes, TMPDIR and shared memory for mpirun and n ranks on this host. Checked before the start; a
 *  job that exceeds a limit later fails where that happens.
 *  @errors E_IO, E_MEMORY: the limit, its value, the value that is needed  @collective{none} */
enum status limits_look(int n_ranks);
/** The same for a process that starts MPI without launch, mpirun or srun; checks nothing otherwise.
 *  @errors E_IO, E_MEMORY  @collective{none} */
enum status limits_look_alone(void);
