/* Requests to stop. SIGUSR1, as a batch system or `launch` sends it before the time is up: save first. SIGINT, Ctrl-C:
 * at once.
 *
 * SIGUSR1 is blocked in every thread, and who wants to know asks the system whether one is pending: no handler ever
 * runs. One must not: a library's kernel may point the stack register at a buffer of its own (oneDNN's products up to
 * 3.11 do, uxlfoundation/oneDNN issue 4845), and a handler's frame, written below it, would overwrite what lies there.
 * SIGINT is blocked too, where no other process (mpirun, launch) sees it; a thread of its own waits for it:
 * whatever the process is busy with, or stuck in, it says one line and ends as a shell expects. */
#ifndef TRIVIUM_LAUNCH_STOP_H
#define TRIVIUM_LAUNCH_STOP_H

#include <stdbool.h>

/** From here on SIGUSR1 is kept for stop_was_asked instead of ending the process, and in a process that mpirun did not
 *  start SIGINT ends it with the line above and that code. First thing in main, before any thread is started: a request
 *  may come while MPI still starts. */
void stop_listen(void);
/** Has this process been asked, now or before? Others may not have been yet: agree before acting. Not for two threads
 *  at once. */
bool stop_was_asked(void);

enum { EXIT_INTERRUPTED = 128 + 2 }; /* as a shell says it of any program that SIGINT ends */
#define INTERRUPTED "interrupted: the steps since the last checkpoint (--save) are lost; --resume continues from it"

#endif
