/* Training a strategy's steps and measuring them. */
#pragma once

#include "driver/compare/compare_row.h"

/** The number of first steps that are not timed, because caches, connections and pages are cold: min(2, steps / 4) */
int64_t compare_warmup(int64_t n_steps);

/** The median; for an even n the mean of the two middle values. Sorts seconds[0..n), n >= 1. */
double compare_median(double *seconds, int64_t n);

/** Train plan.steps steps of an opened run (WATCH_PEAKS or more). Fills *mine, and the row's steps, step time and loss,
 *  which every rank measures. If trace is not NULL, it has room for COMPARE_TRACED steps: the first timed steps are
 *  recorded, and gathered into row->trace on rank 0. The bytes and waits of that gather are not counted.
 *  @collective{mesh} @errors of run_step; E_MEMORY */
enum { COMPARE_TRACED = 4 };
enum status compare_measure(struct run *, struct trace *, struct compare_row *, struct compare_rank *mine);

/* ---- resident memory of this process, as the kernel counts it (resident.c) ---- */
/** Return freed memory to the system, and reset the peak to the bytes resident now (/proc/self/clear_refs). If the
 *  kernel does not allow the reset, the peak stays that of the whole process. */
void resident_reset(void);

/** The largest number of bytes resident at once since the reset; 0 if unknown. */
int64_t resident_peak_bytes(void);
