/* Requests to stop. SIGUSR1, which a batch system or `launch` sends before the time limit: save, then stop. SIGINT
 * (Ctrl-C): stop at once.
 *
 * SIGUSR1 is blocked in every thread, and stop_was_asked checks whether one is pending, so no handler ever runs. A
 * handler would be unsafe, because a library's kernel may point the stack register into its own buffer (oneDNN's
 * products up to 3.11 do, uxlfoundation/oneDNN issue 4845). The handler's frame would overwrite the memory below.
 * SIGINT is blocked too, unless mpirun or launch handles it. A separate thread waits for SIGINT, so that even a stuck
 * process prints one line and ends as a shell expects. */
#pragma once

#include <stdbool.h>

/** Block SIGUSR1 for stop_was_asked, so that it does not end the process. In a process that mpirun did not start, let
 *  SIGINT print the line INTERRUPTED and exit with code EXIT_INTERRUPTED. Call first in main, before any thread starts,
 *  because a request may come while MPI starts. */
void stop_listen(void);
/** Has this process received SIGUSR1 since stop_listen? Agree with the other ranks before acting. Not thread-safe. */
bool stop_was_asked(void);

enum { EXIT_INTERRUPTED = 128 + 2 }; /* the shell's code of any program that SIGINT ends */
#define INTERRUPTED "interrupted: the steps since the last checkpoint (--save) are lost; --resume continues from it"
