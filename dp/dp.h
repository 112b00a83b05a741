/* Data parallelism: each replica has the whole model and a share of the batch; gradients are all-reduced. See dp.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_dp, technique_dp_coded;   /* dp_coded.c: gradients as codes of fewer bytes */

/** Zero the alignment gaps between the gradients of the grad arena, because buckets send them, too.
 *  @errors E_DEVICE  @collective{none} */
enum status dp_clear_gaps(struct run *);
