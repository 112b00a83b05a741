/* Large sums and gathers by messages of our own. See comm_mpi_exchange.c. Private to this folder. */
#ifndef TRIVIUM_COMM_MPI_EXCHANGE_H
#define TRIVIUM_COMM_MPI_EXCHANGE_H

#include "lib/comm/comm_backend.h"

/** Is this call one for comm_exchange? The same answer on every rank of the group. */
bool comm_exchange_takes(const struct group *, const struct comm_call *);

/* request->group must have a communicator. */
extern const struct comm_backend comm_exchange;

/** Push every exchange forward. Every wait calls this, since a peer may need what comes next of another
 *  one.
 *  @collective{none} */
void comm_exchange_progress(void);

#endif
