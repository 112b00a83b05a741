/* How often to save. What each function promises is in interval.h; the theory is in lesson 12, "How often". */
#include "lessons/12-checkpoints-and-faults/interval/interval.h"

enum status interval_mtbf_of_job(double node_mtbf, int n, double *mtbf) {
    (void)node_mtbf, (void)n, (void)mtbf;
    return FAIL(E_TODO, "interval_mtbf_of_job is still to be written");
}

enum status interval_wasted(struct faults f, double tau, double *fraction) {
    /* Three terms: one falls with tau, one grows, one does not care. */
    (void)f, (void)tau, (void)fraction;
    return FAIL(E_TODO, "interval_wasted is still to be written");
}

enum status interval_best(struct faults f, double *tau) {
    /* Where is the derivative zero? */
    (void)f, (void)tau;
    return FAIL(E_TODO, "interval_best is still to be written");
}

enum status interval_steps(struct faults f, double step_s, int64_t *steps) {
    (void)f, (void)step_s, (void)steps;
    return FAIL(E_TODO, "interval_steps is still to be written");
}

enum status interval_wasted_exactly(struct faults f, double tau, double *fraction) {
    /* Let E be the expected seconds for a stretch of a = tau + save seconds without a failure. Either it succeeds at
     * once, or it fails after some seconds t < a, costs t + restart, and E begins again. Solve for E. */
    (void)f, (void)tau, (void)fraction;
    return FAIL(E_TODO, "interval_wasted_exactly is still to be written");
}
