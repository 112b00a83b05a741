/* How often to save. interval.h has each function's contract; the theory is in lesson 12, "How often". */
#include "lessons/12-checkpoints-and-faults/interval/interval.h"

enum status interval_mtbf_of_job(double node_mtbf, int n, double *mtbf) {
    (void)node_mtbf, (void)n, (void)mtbf;
    return FAIL(E_TODO, "interval_mtbf_of_job is still to be written");
}

enum status interval_wasted(struct faults f, double tau, double *fraction) {
    /* There are three terms: one falls with tau, one grows with tau, one does not depend on tau. */
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
    /* Let E be the expected seconds until a = tau + save seconds pass without a failure. Either the first try succeeds,
     * or it fails after t < a seconds, which costs t + restart seconds, and then E again. Solve for E. */
    (void)f, (void)tau, (void)fraction;
    return FAIL(E_TODO, "interval_wasted_exactly is still to be written");
}
