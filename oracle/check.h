/* Holding a recording against a reference: which tensor is the first that is wrong?
 *
 * When a tensor is wrong: verdict.h. AdamW's step is m / sqrt(v): where m is smaller than what rounding may do to it,
 * the sign is rounding's, and the weight may go either way (check_slack.c). Such elements, and no others, may be off by
 * that much more. Where the run says what ranks called of each other, members of a group must have made the same calls
 * (calls.h). */
#ifndef TRIVIUM_ORACLE_CHECK_H
#define TRIVIUM_ORACLE_CHECK_H

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

/** Compare all steps that both have. The caller closes *out in any case.
 *  @errors E_DATA, E_FORMAT: not a recording, not a reference, or one without scales for the run's precision; E_IO,
 *  E_MEMORY  @collective{none} */
enum status check_recordings(const char *run, const char *reference, struct check *out);
void check_close(struct check *);

/* ---- check_slack.c ---- */
/** How far each element of a weight may be off because of the signs of steps up to this one; NULL: not at all, or it
 *  is no weight. Borrowed until the next step of the tensor. Once a step.  @errors E_MEMORY */
enum status check_slack(struct check *, struct kept *reference, const struct checked *, const double **out);
void check_slack_fini(struct check *);

#endif
