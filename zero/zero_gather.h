/* Weights on their way from their owners to their readers. See zero_gather.c. */
#ifndef TRIVIUM_ZERO_ZERO_GATHER_H
#define TRIVIUM_ZERO_ZERO_GATHER_H

#include "lib/run/run.h"
#include "zero/zero_quantized.h"

struct zero_gather {
    struct zero_quantized quantized; /* as what weights travel */
    struct comm_request *gathers;    /* by param: the gather of its weights */
    bool *stale;                     /* by param, stages 1 and 2: its owners may have other weights than this rank */
};

/** Bill the gathers of a step, what of a file they read, and the comm memory that zero_gather_open takes.
 *  @errors E_MEMORY  @collective{none} */
enum status zero_gather_bill(const struct plan *, const struct compiled *, struct bill *);

/** Take its memory, and subscribe to what happens to params. *z is zero before. @errors E_MEMORY, E_DEVICE, E_INTERNAL
 *  @collective{none} */
enum status zero_gather_open(struct run *, struct zero_gather *z);
/** Also of one that could not be opened. */
void zero_gather_close(struct zero_gather *);

#endif
