/* How often to save: Young's interval, and the exact waste that it approximates. */
#include "lessons/12-checkpoints-and-faults/interval/interval.h"

#include <math.h>

enum status interval_mtbf_of_job(double node_mtbf, int n, double *mtbf) {
    *mtbf = node_mtbf / n;
    return OK;
}

enum status interval_wasted(struct faults f, double tau, double *fraction) {
    *fraction = f.save / tau + tau / (2 * f.mtbf) + f.restart / f.mtbf;
    return OK;
}

/* -save / tau^2 + 1 / (2 mtbf) = 0 */
enum status interval_best(struct faults f, double *tau) {
    *tau = sqrt(2 * f.save * f.mtbf);
    return OK;
}

enum status interval_steps(struct faults f, double step_s, int64_t *steps) {
    double tau, below, above;
    TRY(interval_best(f, &tau));
    *steps = (int64_t)(tau / step_s);
    if (*steps < 1) *steps = 1;
    TRY(interval_wasted(f, (double)*steps * step_s, &below));
    TRY(interval_wasted(f, (double)(*steps + 1) * step_s, &above));
    if (above < below) ++*steps;
    return OK;
}

/* With a = tau + save and M = mtbf, the expected seconds are E = a e^(-a/M) + integral over t < a of
 * (t + restart + E) e^(-t/M) / M dt. Solved for E: E = (M + restart) (e^(a/M) - 1). */
enum status interval_wasted_exactly(struct faults f, double tau, double *fraction) {
    *fraction = 1 - tau / ((f.mtbf + f.restart) * expm1((tau + f.save) / f.mtbf));
    return OK;
}
