/* Is a set of schedules sound? See pp_check.c. */
#pragma once

#include "lib/program/schedule.h"

/** Check the schedules of all stages, by themselves and against each other, with `depth` staging buffers per
 *  direction.
 *  @errors E_INTERNAL with the first fault: "stage 2, action 14: ..."; E_MEMORY  @collective{none} */
enum status pp_check_schedules(const struct schedule *stages, int n_stages, int n_chunks, int depth);
