/* Pipeline schedules as pure functions, their closed forms, and the proof that they do not deadlock. See pp_schedule.c. */
#ifndef TRIVIUM_PP_PP_SCHEDULE_H
#define TRIVIUM_PP_PP_SCHEDULE_H

#include "lib/program/schedule.h"
#include "lib/run/plan.h"

/** Refuse what no schedule can be made for. Pure.
 *  @errors E_CONFIG: chunks without interleaved, or without a pipeline; interleaved when n_stages does not divide n_microbatches */
enum status pp_schedule_legal(enum plan_schedule kind, int n_stages, int n_chunks, int n_microbatches);

/** The actions of one stage of a legal schedule: 0 <= stage < n_stages, n_microbatches >= 1. n_chunks is 1 but for
 *  SCHEDULE_INTERLEAVED, and there 1 gives 1F1B. send_depth is left 0. Free with schedule_fini.  @collective{none} */
void pp_schedule_make(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_microbatches, struct schedule *out);

/** Run all stages' schedules against each other, sends blocking as soon as `depth` of them are not received yet. True when
 *  every stage gets to its end, every receive meets the send it stands for, and nothing sent is left over. pp_timeline.h says
 *  why not, when it is false. */
bool pp_simulate(const struct schedule *stages, int n_stages, int depth);

/** The least depth with which pp_simulate succeeds; 0 when none up to n_microbatches does. More than 4 n_stages microbatches
 *  are not simulated: time and memory do not grow with them. */
int pp_send_depth(enum plan_schedule kind, int n_stages, int n_chunks, int n_microbatches);

/** Most forwards (of a chunk and microbatch) that have run and whose backward has not, at any time in this schedule. */
int pp_peak_in_flight(const struct schedule *);

/** Closed forms. Bubble: what a stage idles a step, when a microbatch's forward and backward through all of a stage's chunks
 *  take so long and a transfer takes no time. Peak: of pp_peak_in_flight.
 *  @source Huang et al. 2019; Narayanan et al. 2021, section 2.2 */
double pp_bubble_formula(int n_stages, int n_chunks, double forward, double backward);
int pp_peak_formula(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_microbatches);

#endif
