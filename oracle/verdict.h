/* The verdict on each tensor, and the first wrong one.
 *
 *   e(X) = max |X_run - X_reference| / max |X_reference|        the error of a tensor
 *   s(X)                                                        the error that rounding explains (reference.h)
 *   wrong: e(X) > CHECK_FACTOR s(X)
 *
 * Tensors are compared in the order in which a step makes them, step by step. Tensors after the first wrong one may be
 * wrong because of it: only the first is a finding. A tensor of which two ranks have different values is wrong with any
 * reference; so is a tensor of which a part is missing. */
#pragma once

#include "oracle/kept.h"

#define CHECK_FACTOR 8.0

enum verdict { TENSOR_RIGHT, TENSOR_WRONG, TENSOR_APART, TENSOR_IN_PART, TENSOR_OF_ANOTHER_SHAPE, TENSOR_NOT_RECORDED };

/* A tensor of a step. name, phase: borrowed from the reference. */
struct checked {
    int64_t step;
    const char *name, *phase;
    enum verdict verdict;
    double error, scale;
    int64_t missing, at;                 /* elements that no rank has; the worst element, row-major */
    double apart;                        /* two ranks, and how far they are apart */
    int rank, other;
    double norm;                         /* of the reference's, for findings about norms */
};

/** max (|x - y| - slack) / max |y|, at least 0; not divided if y is all zero. NaN counts as infinite. slack: NULL:
 *  none. *at, unless NULL: the index of the maximum; 0 if there is no difference. */
double whole_difference(const double *x, const double *y, const double *slack, int64_t n, int64_t *at);

/** Compare a whole tensor of the run with the reference's. slack: as above. c->scale is given; verdict, error, at,
 *  missing, apart, rank and other are set: error and at not for a tensor of another shape or with missing parts. */
void verdict_of(const struct whole *run, const struct whole *reference, const double *slack, struct checked *c);

/** The verdict on rows in their order. *n_compared: all rows but those not recorded; *n_wrong: those of them that are
 *  not right. @return the first wrong row; -1: none */
int verdict_first(const struct checked *row, int n, int *n_compared, int *n_wrong);
