/* `trivium show comm`: how collectives go, what each rank sends, and how long that takes on the plan's links. */
#ifndef TRIVIUM_DRIVER_SHOW_COMM_H
#define TRIVIUM_DRIVER_SHOW_COMM_H

#include "lib/run/plan.h"

/* One operation, of no model: so many bytes (of the whole) among so many ranks. */
struct comm_question { enum comm_op op; double bytes; int n_ranks, rank; const char *svg; bool json; };

/** Print what every algorithm that has the operation sends, and its seconds; or, where the plan names one
 *  (comm_algorithm), its rows on a rank, and draw it into svg ("": not). Nodes and links are the plan's, and where it
 *  says nothing, its cluster's. @errors E_CONFIG; E_MEMORY; E_IO  @collective{none} */
enum status show_comm_operation(const struct plan *, const struct comm_question *);

/** Print what a rank of a settled plan exchanges in a step, axis by axis: by which algorithm, in how many messages, and
 *  how many bytes inside a node and between nodes. @errors as show_comm_operation, and the techniques'
 *  @collective{none} */
enum status show_comm_step(const struct plan *, int rank, bool json);

#endif
