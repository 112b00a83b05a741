/* The losses of a large cluster: steps wait for the slowest machine, and machines fail.
 *
 *   slowest of n    a step of n machines, whose times are normal(1, cv), takes 1 + cv E[largest of n normals]. A part q
 *                   of all machines is slower by a factor f; with chance 1 - (1 - q)^n one of these is among n. The
 *                   product of both effects is an upper bound: the slow machine need not be late
 *   interval        a save stops training for d seconds, so saving every t seconds costs d / t of the time. A failure,
 *                   once in M seconds, costs half an interval. d / t + t / (2 M) is least at sqrt(2 d M) (Young), which
 *                   is good if d is small against M; Daly adds further terms
 *   goodput         t / (M e^(R/M) (e^((t+d)/M) - 1)): the part of the time that goes into steps that are not
 *                   undone. A restart takes R seconds, and may fail, too. Exact for failures without memory
 *
 * If each of n ranks fails once in m seconds, the job fails once in M = m / n.
 *
 * Source: Young 1974, "A first order approximation to the optimum checkpoint interval"; Daly 2006, "A higher order
 * estimate of the optimum checkpoint interval for restart dumps", eq. 20 and 37; Blom 1958 (largest of n normals). */
#pragma once

/** A step's time, relative to machines that are all as fast as their mean; >= 1. @param n machines, >= 1
 *  @param cv standard deviation by mean  @param slow_part of the machines takes slow_factor (>= 1) times as long */
double failure_slowest(double n, double cv, double slow_part, double slow_factor);

/** Mean seconds between failures of a job that ends with any failure of its n ranks; each rank fails once in
 *  mtbf_rank_s seconds. INFINITY if mtbf_rank_s is 0, which means that no rank fails. */
double failure_mtbf(double mtbf_rank_s, double n);

/** Seconds of training between two saves. NaN where stall_s or mtbf_s is not positive. @param mtbf_s of the job */
double failure_interval_young(double stall_s, double mtbf_s);
double failure_interval_daly(double stall_s, double mtbf_s);

/** The part of all time that goes into steps that no failure undoes; 0 to 1. @param interval_s, mtbf_s > 0 */
double failure_goodput(double interval_s, double stall_s, double mtbf_s, double restart_s);

/** The chance that at least one of n fails, each with chance p. */
double failure_of_any(double n, double p);
