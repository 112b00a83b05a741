/* Two levels: within each node, between nodes, within each node.
 *
 *   reduce-scatter round the ranks of a node: place i of L gets the node's sum of part i
 *   all-reduce of part i round the N ranks that have place i in their nodes
 *   all-gather round the ranks of the node
 *
 * L: ranks of a node, N: nodes. Each rank sends S (L-1)/L bytes each way inside its node, and 2 (S/L) (N-1)/N to other
 * nodes, the fewest possible. All nodes must have the same number of ranks. */
#include "lib/comm/hops/hop_rows.h"

#include <stdlib.h>

#define OP(op) (1u << COMM_##op)

/* The number of ranks below `rank` that are on this node. */
static int on_node_before(const struct hop_shape *shape, int node, int rank) {
    int n = 0;
    for (int r = 0; r < rank; r++) n += hop_node(shape, r) == node;
    return n;
}
static int ranks_a_node(const struct hop_shape *shape) { return on_node_before(shape, hop_node(shape, 0), shape->n); }

/* Does each node have the same number of ranks? */
static bool fits(const struct hop_shape *shape) {
    int of_a_node = ranks_a_node(shape);
    for (int r = 0; r < shape->n; r++)
        if (on_node_before(shape, hop_node(shape, r), shape->n) != of_a_node) return false;
    return true;
}

static void levels_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    int n = shape->n, node = hop_node(shape, rank), place = on_node_before(shape, node, rank);
    int n_inside = 0, n_between = 0, me_between = 0;
    int *ranks = malloc(2 * (size_t)n * sizeof *ranks), *inside = ranks, *between = ranks + n;
    if (!ranks) {
        table->no_memory = true;
        return;
    }
    for (int r = 0; r < n; r++) {
        if (hop_node(shape, r) == node) inside[n_inside++] = r;
        if (on_node_before(shape, hop_node(shape, r), r) != place) continue;
        if (r == rank) me_between = n_between;
        between[n_between++] = r;
    }
    const struct team all = team_of_all(shape, rank, table);
    const struct team in_node = team_of(shape, inside, n_inside, place, all.whole, &all);
    const struct team across = team_of(shape, between, n_between, me_between, team_piece(&in_node, place), &all);
    ring_reduce_scatter(&in_node);
    ring_reduce_scatter(&across);
    ring_all_gather(&across);
    ring_all_gather(&in_node);
    free(ranks);
}

static struct hop_form levels_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    int inside = ranks_a_node(shape), nodes = shape->n / inside;
    double part = bytes / inside, in_node = 2.0 * (inside - 1) * part, across = 2.0 * (nodes - 1) * part / nodes;
    double seconds = 2 * (inside - 1) * links->latency_s[0] + in_node * links->s_per_byte[0] +
                     2 * (nodes - 1) * links->latency_s[1] + across * links->s_per_byte[1] +
                     (in_node + across) / 2 * links->s_per_byte_added;
    return (struct hop_form){2 * (inside - 1) + 2 * (nodes - 1), in_node + across, seconds};
}

const struct comm_algorithm hops_hierarchical = {
    "hierarchical",
    "a reduce-scatter within each node, an all-reduce of each part between nodes, a gather within nodes",
    "2 (L-1) + 2 (N-1)",
    "2 S (L-1)/L + 2 (S/L) (N-1)/N",
    "2 (L-1) (a0 + S/L b0) + (L-1) S/L g + 2 (N-1) (a1 + S/(L N) b1) + (N-1) S/(L N) g",
    OP(ALL_REDUCE),
    fits,
    "equally many ranks on each node",
    levels_rows,
    levels_form,
};
