/* A row's schedules in simulated time, if all stages take the same time (lib/cost/timeline.h). */
#pragma once

#include "lib/cost/timeline.h"
#include "pp/pp_schedule.h"

/* Times in any unit: of an action of each kind on one chunk and microbatch, and of a message. */
struct pp_times { double tape[N_TAPES], transfer; };

/** The times of a row's actions, from the times of a stage's work on a microbatch: a chunk takes an equal share. */
struct pp_times pp_times_of(const struct pp_schedule *, const struct pp_shape *, const struct pp_work *,
                            double transfer);

/** timeline_make with these times.  @errors E_INTERNAL, E_MEMORY */
enum status pp_timeline_make(const struct schedule *stages, int n_stages, int depth, const struct pp_times *,
                             struct timeline *out);
