/* Holding a recording against a reference: which tensor is the first that is wrong?
 *
 *   e(X) = max |X_run - X_reference| / max |X_reference|        the error of a tensor
 *   s(X)                                                        what rounding explains (scale.json; reference.h)
 *   wrong: e(X) > CHECK_FACTOR s(X)
 *
 * AdamW's step is m / sqrt(v): where m is smaller than what rounding may do to it, the sign is rounding's, and the
 * weight may go either way (check_slack.c). Such elements, and no others, may be off by that much more.
 *
 * Tensors are looked at in the order in which a step makes them, step by step. What comes after the first wrong one may
 * be wrong because of it: only the first is a finding, the rest are its consequences. A tensor that two ranks have, and
 * not alike, is wrong whatever the reference says; so is one that ranks have given only in part. */
#ifndef TRIVIUM_ORACLE_CHECK_H
#define TRIVIUM_ORACLE_CHECK_H

#include "oracle/reference.h"

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

struct slack;
struct check {
    struct recording run, reference;
    struct slack *slack;                 /* of weights, over the steps so far */
    json_t *scale;
    struct checked *row;                 /* in order: [n] */
    int n, first;                        /* the first that is wrong; -1: none */
    int n_compared, n_wrong;
};

/** Compare all steps that both have. *out is to be closed in any case.
 *  @errors E_DATA, E_FORMAT: not a recording, not a reference, or one without scales for the run's precision; E_IO,
 *  E_MEMORY  @collective{none} */
enum status check_recordings(const char *run, const char *reference, struct check *out);
void check_close(struct check *);

/* ---- check_slack.c ---- */
/** Of a weight: how far each element may be off because of the signs of steps up to this one; NULL: not at all, or it
 *  is no weight. Borrowed until the next step of the tensor. Once a step.  @errors E_MEMORY */
enum status check_slack(struct check *, struct kept *reference, const struct checked *, const double **out);
void check_slack_fini(struct check *);

#endif
