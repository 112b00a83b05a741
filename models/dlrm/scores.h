/* The predictions of a click model in an evaluation, stored for auc_of. */
#pragma once

#include "lib/base/auc.h"
#include "lib/comm/comm.h"

struct scores { int64_t n, room; struct score at[]; };

/** Append n logits and their labels; skip those with a negative label, which have no sample. *scores: NULL before the
 *  first call; reallocated here, and freed by the caller. @errors E_MEMORY */
enum status scores_add(struct scores **, const void *logits, enum dtype, const int32_t *labels, int64_t n);
/** *auc: the AUC of all ranks' predictions; NaN as in auc_of. scores NULL: this rank has none.
 *  @collective{group} @errors E_MEMORY, E_COMM, E_TIMEOUT */
enum status scores_auc(const struct scores *, const struct group *, double *auc);
