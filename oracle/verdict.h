/* The verdict on each tensor, and the first wrong one.
 *
 *   e(X) = max |X_run - X_reference| / max |X_reference|        the error of a tensor
 *   s(X)                                                        the error that rounding explains (reference.h)
 *   wrong: e(X) > CHECK_FACTOR s(X)
 *
 * Tensors are compared in the order in which a step makes them, step by step. Tensors after the first wrong one may be
 * wrong because of it, so only the first is a finding. Without any reference a tensor is wrong if two ranks have
 * different values of it, or if a part is missing. */
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
    double apart;                        /* largest difference between two ranks, and these ranks */
    int rank, other;
};

/** max (|x - y| - slack) / max |y|, at least 0; not divided if y is all zero. NaN counts as infinite. slack: NULL:
 *  none. *at, unless NULL: the index of the maximum; 0 if there is no difference. */
double whole_difference(const double *x, const double *y, const double *slack, int64_t n, int64_t *at);

/** Compare a whole tensor of the run with the reference's. slack: as in whole_difference. Reads c->scale; sets verdict,
 *  missing, apart, rank and other, and, if shapes are equal and no part is missing, error and at. */
void verdict_of(const struct whole *run, const struct whole *reference, const double *slack, struct checked *c);

/** The verdict on rows in their order. *n_compared: recorded rows; *n_wrong: those of them that are not right. @return
 *  the first wrong row; -1: none */
int verdict_first(const struct checked *row, int n, int *n_compared, int *n_wrong);
