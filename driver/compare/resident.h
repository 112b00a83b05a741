/* Resident memory of this process, as the kernel counts it. */
#pragma once

#include <stdint.h>

/** Give freed memory back and let the peak start again from what is resident now. Where the kernel does not allow that
 *  (Linux does, through /proc/self/clear_refs), the peak stays that of the whole process. */
void resident_reset(void);

/** The most bytes that were resident at once since the reset; 0 where it is unknown. */
int64_t resident_peak_bytes(void);
