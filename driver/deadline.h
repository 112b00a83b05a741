/* A deadline for calls without one: MPI's start, making groups, opening a pipe. An alarm ends the process and says
 * why. */
#pragma once

/** From here until deadline_lift or the next call: after this many seconds (rounded up) one E_TIMEOUT line, and
 *  code 1.
 *  @param what "set-up": copied  @collective{none} */
void deadline_set(double seconds, const char *what);
void deadline_lift(void);

/** For MPI_Init, which can wait forever for a process that never came, and for all until the next deadline: the command
 *  line's comm-timeout, and some seconds for loading programs. argv[0..argc): the command's words.
 *  @collective{none} */
void deadline_set_for_start(int argc, char **argv);
