/* NVTX: named ranges of the host's time. NVIDIA's profilers show a range above the work that the host queued in it.
 * Ranges cost nothing without a profiler; nsys sets NVTX_INJECTION64_PATH. */
#pragma once

#include <stdbool.h>

/** Did the build find nvtx3/nvToolsExt.h? */
bool nvtx_is_built(void);
/** Is a profiler attached that reads names? */
bool nvtx_is_heard(void);
/** push begins a range, nested in this thread's open range; pop ends the newest one. Without NVTX both do nothing. */
void nvtx_push(const char *name);
void nvtx_pop(void);
