/* The share of a job's time that went into steps that count, and the interval between saves.
 *
 *   goodput = seconds in steps that count / all seconds        not counted: set-up, loading, stops for saves,
 *                                                              evaluation, waits for a restart, undone steps
 *
 * The interval that costs least is Young's (planner/failure.h). */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Young's interval between saves in whole steps, at least one; 0: unknown. */
int64_t goodput_interval_steps(double stall_s, double mtbf_s, double step_s);

/** Write "training stops for 0.210 s to save; with a failure every 3600 s, save every 38.9 s: --save-every 94 (Young
 *  1974)"; "" if a number is unknown. */
void goodput_advice(double stall_s, double mtbf_s, double step_s, char *out, size_t size);

/* Sums over the rows of a metrics file, all attempts together. */
struct goodput_rows {
    int64_t n_steps, n_undone;     /* steps that count; steps that were done again, or lost after the last checkpoint */
    double steps_s, undone_s;      /* seconds in steps that count; in undone steps */
    int64_t n_saves;
    double stalls_s;               /* seconds that training stopped for saves */
};
/** Read the rows from byte `from` on. A repeated step undoes its earlier row and all rows after that. Steps after
 *  last_step are lost. Lines that are no rows are skipped. @errors E_DATA: there is no such file; E_IO; E_MEMORY */
enum status goodput_read(const char *path, int64_t from, int64_t last_step, struct goodput_rows *out);
