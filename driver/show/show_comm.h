/* `trivium show comm`: the messages of collectives by rank, and their time on the plan's links. */
#pragma once

#include "lib/comm/hops/hops.h"
#include "lib/run/plan.h"

/* One operation without a model, on `bytes` (of the whole tensor) among n_ranks. */
struct comm_question { enum comm_op op; double bytes; int n_ranks, rank; const char *out; bool json; };

/* An operation's shape, nodes and links. node: owned. */
struct network { struct hop_shape shape; struct hop_links links; int *node; int n_nodes; };
enum { NETWORK_ELEMENT = 4 };   /* fp32, in the segments and lines of lib/comm/hops/comm_hops.c */

/** The network of an operation on `bytes` (of the whole tensor) among n ranks. Its links are the plan's if given,
 *  otherwise its cluster's; `source` gets their origin. The caller frees net->node, also after an error.
 *  @errors E_CONFIG, E_MEMORY  @collective{none} */
enum status network_open(const struct plan *, enum comm_op, int n, double bytes, struct network *net, char *source,
                         size_t source_bytes);
/** Print the lines above a table: the operation, its ranks, and the links. @collective{none} */
void network_print(const struct plan *, const struct network *, double bytes, const char *source);

/** Print the ranges of bandwidth between nodes in which an algorithm, codec or technique beats a ring all-reduce of the
 *  same bytes, by simulation. @errors E_CONFIG: one node; E_MEMORY @collective{none} */
enum status show_comm_crossings(const struct plan *, const struct comm_question *);

/** Print the messages, bytes and seconds of every algorithm of the operation. If the plan names an algorithm
 *  (comm_algorithm), print its rows on one rank instead, and draw it on a page in the folder `out` ("": no page). Links
 *  are the plan's if given, otherwise its cluster's. @errors E_CONFIG; E_MEMORY; E_IO  @collective{none} */
enum status show_comm_operation(const struct plan *, const struct comm_question *);

/** Print the exchanges of a rank of a settled plan in a step, by axis: the algorithm, messages, and bytes inside a node
 *  and between nodes. @errors as show_comm_operation, and the techniques'  @collective{none} */
enum status show_comm_step(const struct plan *, int rank, bool json);
