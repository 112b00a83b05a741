/* Exercise: the cost of failures (lesson 16, "Failures"). planner/failure.h is the contract; all times are in seconds.
 *
 *   M    mean time between failures of the job: that of a rank, divided by the number of ranks
 *   d    time in which training waits for a save         t    training time between two saves
 *   R    from a failure to the next step                 x    d / 2M
 *
 *   Young      sqrt(2dM)                                               minimum of d/t + t/2M, to first order
 *   Daly       sqrt(2dM) [1 + sqrt(x)/3 + x/9] - d      for x < 1      Daly 2006, eq. 37
 *              M                                        otherwise
 *   goodput    t / (M e^(R/M) (e^((t+d)/M) - 1))                       exact for failures without memory
 *
 * Special cases: mtbf_rank_s 0 means a rank that never fails; the job's M is then INFINITY. If d or M is not positive,
 * the interval is NAN. expm1(y) is e^y - 1 without the rounding of the difference. */
#include "planner/failure.h"

#include <math.h>

/* TODO */
double failure_mtbf(double mtbf_rank_s, double n) { return (void)mtbf_rank_s, (void)n, -1; }

/* TODO */
double failure_interval_young(double stall_s, double mtbf_s) { return (void)stall_s, (void)mtbf_s, -1; }

/* TODO */
double failure_interval_daly(double stall_s, double mtbf_s) { return (void)stall_s, (void)mtbf_s, -1; }

/* TODO */
double failure_goodput(double interval_s, double stall_s, double mtbf_s, double restart_s) {
    return (void)interval_s, (void)stall_s, (void)mtbf_s, (void)restart_s, -1;
}

/* ---- given ---- */
/* The p-quantile of the standard normal distribution, by 80 bisections of [-10, 10]. */
static double normal_quantile(double p) {
    double low = -10, high = 10;
    for (int i = 0; i < 80; i++) {
        double x = (low + high) / 2;
        if (0.5 * erfc(-x / sqrt(2)) < p) low = x;
        else high = x;
    }
    return (low + high) / 2;
}

double failure_of_any(double n, double p) { return -expm1(n * log1p(-p)); }

double failure_slowest(double n, double cv, double slow_part, double slow_factor) {
    double largest = n < 2 ? 0 : normal_quantile((n - 0.375) / (n + 0.25));
    return (1 + cv * largest) * (1 + failure_of_any(n, slow_part) * (slow_factor - 1));
}
