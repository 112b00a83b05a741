/* A graded process that is not trusted, once its tests begin: the code in it is all that it will ever run.
 *
 * What is graded runs in the process of the tests, and could change them: an assertion that never fails needs one byte
 * of CMocka's code. After lockdown() the kernel refuses memory that is run as code and was not when the tests began:
 * mapped, made so, shared, or moved over other code. The program's own memory stays as it is protected (addresses of
 * CMocka's functions are constants there), and no /proc/self/mem can be opened. The filter of system calls stays for
 * the rest of the process, and for its children. It needs Linux on x86-64 or aarch64; elsewhere there is none. */
#pragma once

#include <stdbool.h>

/** On every thread of this process. False: the kernel does not take the filter, and a line on stderr says why. */
bool lockdown(void);
