/* The cost of an all-reduce. cost.h has the formulas; lesson 02, "What a message costs", derives them. */
#include "lessons/02-collectives/cost/cost.h"

/* Three formulas. If n is not a power of two, tree and halving-doubling have different numbers of rounds. */
enum status cost_all_reduce(enum all_reduce_algorithm algorithm, int n, double bytes, const struct link_cost *link,
                            double *seconds) {
    (void)algorithm, (void)n, (void)bytes, (void)link, (void)seconds;
    return FAIL(E_TODO, "cost_all_reduce is not written yet");
}

enum status cost_bus_bandwidth(int n, double bytes, double seconds, double *out) {
    (void)n, (void)bytes, (void)seconds, (void)out;
    return FAIL(E_TODO, "cost_bus_bandwidth is not written yet");
}

/* Set the two formulas equal and solve for S. */
enum status cost_crossover(int n, const struct link_cost *link, double *bytes) {
    (void)n, (void)link, (void)bytes;
    return FAIL(E_TODO, "cost_crossover is not written yet");
}

/* Relative errors are least squares with weights 1 / seconds[i]^2, which give two equations for alpha and beta. */
enum status cost_fit(const double *bytes, const double *seconds, int n, struct link_cost *out) {
    (void)bytes, (void)seconds, (void)n, (void)out;
    return FAIL(E_TODO, "cost_fit is not written yet");
}
