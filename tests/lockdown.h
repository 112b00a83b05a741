/* Locks a graded process that is not trusted before its tests begin: no new code can run in it.
 *
 * Graded code runs in the process of the tests, and could change them: an assertion that never fails needs one byte of
 * CMocka's code. After lockdown() the kernel refuses new executable memory: mapped, made executable, shared, or moved
 * over other code. The protection of the program's own memory cannot change (addresses of CMocka's functions are
 * constants there), and /proc/self/mem cannot be opened. The filter of system calls stays for the rest of the process,
 * and for its children. It needs Linux on x86-64 or aarch64; elsewhere there is no filter. */
#pragma once

#include <stdbool.h>

/** Lock every thread of this process. False: the kernel refuses the filter, and a line on stderr says why. */
bool lockdown(void);
