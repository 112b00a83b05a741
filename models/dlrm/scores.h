/* The predictions of a model of clicks in an evaluation, kept for auc_of. */
#pragma once

#include "lib/base/auc.h"
#include "lib/comm/comm.h"

struct scores { int64_t n, room; struct score at[]; };

/** Remember n logits and their labels; where a label is negative there is no sample. *scores: NULL at first, and from
 *  realloc; the caller frees it. @errors E_MEMORY */
enum status scores_add(struct scores **, const void *logits, enum dtype, const int32_t *labels, int64_t n);
/** *auc: of the predictions of all ranks of the group; NaN as in auc_of. scores NULL: none on this rank.
 *  @collective{group} @errors E_MEMORY, E_COMM, E_TIMEOUT */
enum status scores_auc(const struct scores *, const struct group *, double *auc);
