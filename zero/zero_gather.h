/* All-gathers of weights from their owners. See zero_gather.c. */
#pragma once

#include "lib/run/run.h"
#include "zero/zero_quantized.h"

struct zero_gather {
    struct zero_quantized quantized; /* the code of weights on the wire */
    struct comm_request *gathers;    /* by param: the gather of its weights */
    bool *stale;                     /* by param, stages 1 and 2: its owners may have newer weights than this rank */
};

/** Bill the gathers of a step, the bytes that they read from a file, and the comm memory that zero_gather_open takes.
 *  @errors E_MEMORY  @collective{none} */
enum status zero_gather_bill(const struct plan *, const struct compiled *, struct bill *);

/** Take its memory, and subscribe to the events of params. *z is zero before. @errors E_MEMORY, E_DEVICE, E_INTERNAL
 *  @collective{none} */
enum status zero_gather_open(struct run *, struct zero_gather *z);
/** Also after an open that failed. */
void zero_gather_close(struct zero_gather *);
