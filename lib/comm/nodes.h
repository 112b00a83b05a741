/* The node of each rank of the world: its host, or an emulated node.
 *
 * With comm_settings.ranks_per_node = k > 0 nodes are emulated: each has k ranks, in blocks (rank / k), or dealt to the
 * nodes in turn (rank modulo their number). So a laptop can count the bytes that would cross a network. */
#pragma once

#include "lib/base/status.h"

struct nodes { int ranks_per_node; bool cyclic; };   /* ranks_per_node 0: the nodes are the hosts */

/** The emulated node of a rank of n: 0 <= rank < n, ranks_per_node > 0; the last node may have fewer. Pure. */
int node_emulated(const struct nodes *, int rank, int n);
/** The node of a world rank: emulated, or its host. 0 before comm_start. */
int comm_node(int world_rank);
/** The real host of a world rank, numbered from 0; 0 before comm_start. */
int comm_host(int world_rank);
