/* A request to stop: SIGUSR1, as a batch system or `launch` sends it before the time is up. */
#ifndef TRIVIUM_DRIVER_STOP_H
#define TRIVIUM_DRIVER_STOP_H

#include <stdbool.h>

/** From here on SIGUSR1 is noted instead of ending the process. System calls that it interrupts go on. First thing in main: a request may
 *  come while MPI still starts. */
void stop_listen(void);
/** Has this process been asked? Others may not have been yet: agree before acting. */
bool stop_was_asked(void);

#endif
