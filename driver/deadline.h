/* A deadline for calls without a timeout: MPI's start, making groups, opening a pipe. An alarm ends the process. */
#pragma once

/** After this many seconds (rounded up), print one E_TIMEOUT line and exit with code 1. deadline_lift cancels the
 *  deadline; the next call replaces it.
 *  @param what the late phase, as "set-up"; copied  @collective{none} */
void deadline_set(double seconds, const char *what);
void deadline_lift(void);

/** The deadline of MPI_Init, which waits forever if a process never starts, and of all calls until the next deadline:
 *  the command line's comm-timeout, plus some seconds for loading programs. argv[0..argc): the command's words.
 *  @collective{none} */
void deadline_set_for_start(int argc, char **argv);
