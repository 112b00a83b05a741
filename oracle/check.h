/* Compares a recording with a reference, and finds the first wrong tensor.
 *
 * verdict.h defines wrong. AdamW's step is m / sqrt(v). If m is smaller than its rounding error, its sign is open, so
 * the weight may move either way; only such elements have a larger limit (check_slack.c). If the run has a log of
 * communication calls, members of a group must have made the same calls (calls.h). */
#pragma once

#include "oracle/calls.h"
#include "oracle/reference.h"
#include "oracle/verdict.h"

struct slack;
struct check {
    struct recording run, reference;
    struct slack *slack;                 /* of weights, over the steps so far */
    json_t *scale;
    struct checked *row;                 /* in order: [n] */
    int n, first;                        /* the first that is wrong; -1: none */
    int n_compared, n_wrong;
    struct calls calls;                  /* of the run */
};

/** Compare the steps that both recordings have. The caller closes *out in any case.
 *  @errors E_DATA, E_FORMAT: not a recording, not a reference, or one without scales for the run's precision; E_IO,
 *  E_MEMORY  @collective{none} */
enum status check_recordings(const char *run, const char *reference, struct check *out);
void check_close(struct check *);

/* ---- check_slack.c ---- */
/** For each element of a weight: the difference that open signs up to this step explain. NULL: none, or the tensor is
 *  no weight. Borrowed until the next step of the tensor. Call once a step.  @errors E_MEMORY */
enum status check_slack(struct check *, struct kept *reference, const struct checked *, const double **out);
void check_slack_fini(struct check *);
