/* Checks limits before Open MPI and OpenBLAS reach them, because these would hang or print a page of errors. */
#pragma once

#include "lib/base/status.h"

/** Before the start, check the limits for mpirun and n ranks on this host: open files, file sizes, TMPDIR and shared
 *  memory. A job that exceeds a limit later fails at that point.
 *  @errors E_IO, E_MEMORY: the limit, its value, the value that is needed  @collective{none} */
enum status limits_look(int n_ranks);
/** The same for one process that starts MPI without launch, mpirun or srun. In a rank that these start, check nothing.
 *  @errors E_IO, E_MEMORY  @collective{none} */
enum status limits_look_alone(void);
