/* `trivium show comm`: how collectives go, what each rank sends, and how long that takes on the plan's links. */
#pragma once

#include "lib/comm/hops/hops.h"
#include "lib/run/plan.h"

/* One operation, without a model: `bytes` (of the whole) among n_ranks. */
struct comm_question { enum comm_op op; double bytes; int n_ranks, rank; const char *out; bool json; };

/* An operation's shape, nodes and links. node: owned. */
struct network { struct hop_shape shape; struct hop_links links; int *node; int n_nodes; };
enum { NETWORK_ELEMENT = 4 };   /* fp32, in the segments and lines of lib/comm/hops/comm_hops.c */

/** The network of an operation of `bytes` (of the whole) among n ranks. Links are the plan's, else its cluster's;
 *  `source` says which. The caller frees net->node, also after an error. @errors E_CONFIG, E_MEMORY
 *  @collective{none} */
enum status network_open(const struct plan *, enum comm_op, int n, double bytes, struct network *net, char *source,
                         size_t source_bytes);
/** The lines above a table: the operation, its ranks, and the links. @collective{none} */
void network_print(const struct plan *, const struct network *, double bytes, const char *source);

/** Print in which ranges of bandwidth between nodes each algorithm and codec of gradients beats a ring all-reduce of
 *  these bytes, by simulation. @errors E_CONFIG: one node; E_MEMORY @collective{none} */
enum status show_comm_crossings(const struct plan *, const struct comm_question *);

/** Print the messages, bytes and seconds of every algorithm of the operation; or, if the plan names one
 *  (comm_algorithm), its rows on a rank, and write a page that draws it into the folder out ("": not). Nodes and links
 *  are the plan's, else its cluster's. @errors E_CONFIG; E_MEMORY; E_IO  @collective{none} */
enum status show_comm_operation(const struct plan *, const struct comm_question *);

/** Print what a rank of a settled plan exchanges in a step, axis by axis: by which algorithm, in how many messages, and
 *  how many bytes inside a node and between nodes. @errors as show_comm_operation, and the techniques'
 *  @collective{none} */
enum status show_comm_step(const struct plan *, int rank, bool json);
