/* Is a tensor wrong, and which is the first?
 *
 *   e(X) = max |X_run - X_reference| / max |X_reference|        the error of a tensor
 *   s(X)                                                        what rounding explains (scale.json; reference.h)
 *   wrong: e(X) > CHECK_FACTOR s(X)
 *
 * Tensors are looked at in the order in which a step makes them, step by step. What comes after the first wrong one may
 * be wrong because of it: only the first is a finding, the rest are its consequences. A tensor that two ranks have, and
 * not alike, is wrong whatever the reference says; so is one that ranks have given only in part. */
#ifndef TRIVIUM_ORACLE_VERDICT_H
#define TRIVIUM_ORACLE_VERDICT_H

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

/** max (|x - y| - slack) / max |y|, at least 0; where y is all zero, without dividing. NaN counts as infinite. slack:
 *  NULL: none. *at: where, unless NULL; 0 if nowhere. */
double whole_difference(const double *x, const double *y, const double *slack, int64_t n, int64_t *at);

/** A tensor of the run, put together, held against the reference's. slack: as above. c->scale is given; verdict, error,
 *  at, missing, apart, rank and other are set: of a tensor of another shape or in part no error and no place. */
void verdict_of(const struct whole *run, const struct whole *reference, const double *slack, struct checked *c);

/** The verdict of rows in the order in which they are made. *n_compared: all but those not recorded; *n_wrong: all
 *  but those and the right ones. @return the first that is wrong; -1: none */
int verdict_first(const struct checked *row, int n, int *n_compared, int *n_wrong);

#endif
