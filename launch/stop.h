/* Requests to stop. SIGUSR1, as a batch system or `launch` sends it before the time is up: save first. SIGINT, Ctrl-C:
 * at once.
 *
 * SIGUSR1 is blocked in every thread, and stop_was_asked checks whether one is pending, so no handler ever runs. A
 * handler would be unsafe: a library's kernel may point the stack register into its own buffer (oneDNN's products up to
 * 3.11 do, uxlfoundation/oneDNN issue 4845), and the handler's frame would overwrite the memory below. SIGINT is
 * blocked too, unless another process (mpirun, launch) handles it. A separate thread waits for it, so that even a stuck
 * process prints one line and ends as a shell expects. */
#pragma once

#include <stdbool.h>

/** Keep SIGUSR1 for stop_was_asked instead of ending the process. In a process that mpirun did not start, SIGINT ends
 *  it with the line INTERRUPTED and code EXIT_INTERRUPTED. Call first in main, before any thread starts: a request may
 *  come while MPI starts. */
void stop_listen(void);
/** Has this process received a request, now or before? Other ranks may not have theirs yet: agree before acting. Not
 *  thread-safe. */
bool stop_was_asked(void);

enum { EXIT_INTERRUPTED = 128 + 2 }; /* the shell's code of any program that SIGINT ends */
#define INTERRUPTED "interrupted: the steps since the last checkpoint (--save) are lost; --resume continues from it"
