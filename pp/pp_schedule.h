/* Pipeline schedules as pure functions, and the simulation that proves them free of deadlock. See pp_schedule.c. */
#ifndef TRIVIUM_PP_PP_SCHEDULE_H
#define TRIVIUM_PP_PP_SCHEDULE_H

#include "lib/program/schedule.h"
#include "lib/run/plan.h"

/** The actions of one stage: kind is SCHEDULE_GPIPE or SCHEDULE_1F1B, 0 <= stage < n_stages, n_microbatches >= 1.
 *  send_depth is left 0. Free with schedule_fini.  @collective{none} */
void pp_schedule_make(enum plan_schedule kind, int n_stages, int stage, int n_microbatches, struct schedule *out);

/** Run all stages' schedules against each other, sends blocking as soon as `depth` of them are not received yet. True when
 *  every stage gets to its end, every receive meets the send it stands for, and nothing sent is left over. */
bool pp_simulate(const struct schedule *stages, int n_stages, int depth);

/** The least depth with which pp_simulate succeeds; 0 when none up to n_microbatches does. */
int pp_send_depth(enum plan_schedule kind, int n_stages, int n_microbatches);

/** Most microbatches whose forward has run and whose backward has not, at any time in this schedule. */
int pp_peak_in_flight(const struct schedule *);

#endif
