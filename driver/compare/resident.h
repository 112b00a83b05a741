/* Resident memory of this process, as the kernel counts it. */
#pragma once

#include <stdint.h>

/** Return freed memory to the system, and reset the peak to the bytes resident now (/proc/self/clear_refs). If the
 *  kernel does not allow the reset, the peak stays that of the whole process. */
void resident_reset(void);

/** The largest number of bytes resident at once since the reset; 0 if unknown. */
int64_t resident_peak_bytes(void);
