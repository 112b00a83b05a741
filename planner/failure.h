/* The losses of a large cluster: steps wait for the slowest machine, and machines fail.
 *
 *   slowest of n    a step of n machines, each normal(1, cv), takes 1 + cv E[largest of n normals]; and a machine that
 *                   is slow (one in 1/q, by a factor f) is among n with 1 - (1 - q)^n. The product of the two is an
 *                   upper bound: the slow one need not be late
 *   interval        saving every t seconds costs d / t of the time, d: seconds that training stands still for a save.
 *                   A failure, one in M seconds, costs half an interval. d / t + t / (2 M) is least at sqrt(2 d M)
 *                   (Young), good while d is small against M; Daly has the terms that follow
 *   goodput         t / (M e^(R/M) (e^((t+d)/M) - 1)): the part of the time that goes into steps that count, with R
 *                   seconds to restart, which may fail, too. Exact for failures without memory
 *
 * Of n ranks that each fail once in m seconds, one fails every M = m / n.
 *
 * Source: Young 1974, "A first order approximation to the optimum checkpoint interval"; Daly 2006, "A higher order
 * estimate of the optimum checkpoint interval for restart dumps", eq. 20 and 37; Blom 1958 (largest of n normals). */
#pragma once

/** A step's time, relative to machines that are all as fast as their mean; >= 1. @param n machines, >= 1
 *  @param cv standard deviation by mean  @param slow_part of the machines, slow_factor times as slow (>= 1) */
double failure_slowest(double n, double cv, double slow_part, double slow_factor);

/** Mean seconds between failures of a job of n ranks that each fail once in mtbf_rank_s seconds, and that ends
 *  with the first. INFINITY where mtbf_rank_s is 0: they never fail. */
double failure_mtbf(double mtbf_rank_s, double n);

/** Seconds of training between two saves. NaN where stall_s or mtbf_s is not positive. @param mtbf_s of the job */
double failure_interval_young(double stall_s, double mtbf_s);
double failure_interval_daly(double stall_s, double mtbf_s);

/** The part of all time that goes into steps that count; 0 to 1. @param interval_s, mtbf_s > 0 */
double failure_goodput(double interval_s, double stall_s, double mtbf_s, double restart_s);

/** The chance that at least one of n fails, each with chance p. */
double failure_of_any(double n, double p);
