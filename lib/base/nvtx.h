/* NVTX: names for stretches of the host's time, which NVIDIA's profilers show above what was queued in them. They cost
 * nothing where no profiler is attached (NVTX_INJECTION64_PATH, which nsys sets). */
#pragma once

#include <stdbool.h>

/** Was nvtx3/nvToolsExt.h found when this was built? */
bool nvtx_is_built(void);
/** Is a profiler attached that reads names? */
bool nvtx_is_heard(void);
/** A range begins, in the one that is open on this thread; the one that was opened last ends. Without NVTX: nothing. */
void nvtx_push(const char *name);
void nvtx_pop(void);
