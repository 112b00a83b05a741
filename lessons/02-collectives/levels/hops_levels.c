/* Your hops_levels.c: an all-reduce over nodes, as a table of rows. Exercise "levels" of lesson 02, "Two levels".
 *
 * L ranks are on each of N nodes. The *place* of a rank is the number of ranks of its node before it: 0 to L - 1. This
 * code sends nothing. It calls functions that append rows to a table, with the ranks and elements on which the rows
 * work; lib/comm/hops/hop_rows.h declares them. Grade your file with
 *
 *     make grade LESSON=02 EXERCISE=levels FILE=my/hops_levels.c */
#include "lib/comm/hops/hop_rows.h"

#include <math.h>
#include <stdlib.h>

#define OP(op) (1u << COMM_##op)

/* The number of ranks before `rank` that are on `node`. */
static int on_node_before(const struct hop_shape *shape, int node, int rank) {
    int n = 0;
    for (int r = 0; r < rank; r++) n += hop_node(shape, r) == node;
    return n;
}
static int ranks_a_node(const struct hop_shape *shape) { return on_node_before(shape, hop_node(shape, 0), shape->n); }

/* Do all nodes have the same number of ranks? */
static bool fits(const struct hop_shape *shape) {
    int of_a_node = ranks_a_node(shape);
    for (int r = 0; r < shape->n; r++)
        if (on_node_before(shape, hop_node(shape, r), shape->n) != of_a_node) return false;
    return true;
}

/* The rows of `rank`, in four calls:
 *
 *   ring_reduce_scatter, ring_all_gather      over a team (struct team, hop_rows.h): a list of ranks of the group, in
 *                                             ascending order, this rank's index in it, and a range of elements
 *   team_of_all(shape, rank, table)           all ranks, over all elements; the other two teams are made from it
 *   team_of(shape, list, n, me, range, &all)  some ranks, over a range. The list is borrowed until the rows are made
 *   team_piece(&team, i)                      the range that member i of a team owns; the last ranges may be shorter
 *   hop_node(shape, r)                        the node of rank r
 *
 * If there is no memory, set table->no_memory and return. */
static void levels_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    (void)shape;
    (void)rank;
    (void)table;
}

/* The cost of the rows: messages and bytes that a rank sends (inside and between nodes together), and seconds. `bytes`
 * is S. links: latency_s and s_per_byte, [0] inside a node and [1] between nodes; s_per_byte_added. NAN: unknown. */
static struct hop_form levels_form(const struct hop_shape *shape, double bytes, const struct hop_links *links) {
    (void)shape;
    (void)bytes;
    (void)links;
    return (struct hop_form){NAN, NAN, NAN};
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
