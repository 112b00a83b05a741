/* The cost of a training run: from a step's speed to days, hours of GPUs, money and energy.
 *
 *   flops      6 N D: per parameter and token a multiplication and an addition forward, and twice as many backward. The
 *              model's own formula also counts attention, and only the active experts
 *   ideal      flops / (ranks x peak x mfu)
 *   days       ideal x slowest of the machines / goodput                                          failure.h
 *
 * mfu counts only flops that the model needs, so recomputation lowers it: if whole layers are replayed, the processors
 * do 8 N D (Narayanan et al. 2021, section 5.1: 175B, 300e9 tokens, 1024 GPUs at 140 Tflop/s: 34 days).
 *
 * Source: Kaplan et al. 2020, section 2.1 (6 N D); for failures see failure.h. */
#pragma once

#include "lib/cost/cluster.h"

/* interval_s 0: save at Daly's interval. If the cluster's mtbf_rank_s is 0, nothing fails. */
struct budget_of { double flops, peak_flops_per_s, mfu, ranks, stall_s, restart_s, interval_s; };

struct budget {
    double ideal_s;                       /* without failures, on equally fast machines */
    double slowest;                       /* >= 1: a step's time / its time if no machine were slower */
    double mtbf_s;                        /* of the job; INFINITY: it never fails */
    double young_s, daly_s, interval_s;   /* between saves; NAN if nothing fails or a save takes no time */
    double goodput;                       /* 0 to 1 */
    double wall_s, failures;              /* from start to end; expected number in that time */
    double rank_hours, price, joules;     /* price, joules: 0 if the cluster has no figure */
    double failing_day;                   /* chance that a day has a failure */
};

/** @param of its last three may be 0, the others are above 0  @collective{none} */
struct budget budget_make(const struct cluster *, const struct budget_of *of);
