/* The reductions of two buffers of host memory, element by element. */
#pragma once

#include "lib/comm/comm.h"

/* into[i] = the reduction of from[i] and into[i]. */
typedef void comm_reducer(const void *from, void *into, int64_t n);
/** The reducer of a floating type, INT32 or UINT8; NULL: other types have none. Pure. @collective{none} */
comm_reducer *comm_reducer_of(enum dtype, enum comm_reduction);
