/* Exercise: is a tensor wrong, and which tensor is the first wrong one (lesson 17, "Units of rounding" and "Only the
 * first alarm")?
 *
 *   e(X) = max |X_run - X_reference| / max |X_reference|
 *   s(X)                                                the error that rounding causes: c->scale
 *   wrong: e(X) > CHECK_FACTOR s(X)
 *
 * whole_difference is e. An element of a weight may have slack, which is subtracted from its difference. If the
 * reference is all zero, do not divide. A difference that is NaN counts as INFINITY.
 *
 * verdict_of decides about one tensor, in this order:
 *
 *   TENSOR_OF_ANOTHER_SHAPE   n_axes or box.of differ; no error is computed
 *   TENSOR_IN_PART            elements are missing; no error is computed
 *   TENSOR_APART              two ranks differ by more than CHECK_FACTOR s(X): whole.apart
 *   TENSOR_WRONG              e(X) > CHECK_FACTOR s(X)
 *   TENSOR_RIGHT              otherwise
 *
 * verdict_first searches the rows of all steps, which are in the order of computation.
 *
 * oracle/verdict.h is the contract; struct whole is in oracle/kept.h. */
#include "oracle/verdict.h"

#include <math.h>
#include <string.h>

/* TODO */
double whole_difference(const double *x, const double *y, const double *slack, int64_t n, int64_t *at) {
    (void)x, (void)y, (void)slack, (void)n, (void)at;
    return NAN;
}

/* TODO */
void verdict_of(const struct whole *run, const struct whole *reference, const double *slack, struct checked *c) {
    (void)run, (void)reference, (void)slack;
    c->verdict = TENSOR_NOT_RECORDED;
}

/* TODO */
int verdict_first(const struct checked *row, int n, int *n_compared, int *n_wrong) {
    (void)row, (void)n;
    *n_compared = *n_wrong = -1;
    return -1;
}
