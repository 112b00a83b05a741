/* Your hops_levels.c: an all-reduce over nodes, as a table of rows. Exercise "levels" of lesson 26, "Two levels".
 *
 * L ranks are on each of N nodes. The *place* of a rank is the number of ranks of its node before it: 0 to L - 1. This
 * code sends nothing. It calls functions that append rows to a table, with the ranks and elements on which the rows
 * work; lib/comm/hops/hop_rows.h declares them. There are three types, all in lib/comm/hops/hops.h: struct hop_links,
 * the costs of a link; struct hop_shape, from which you need n, the number of ranks; struct hop_table, to which rows
 * are appended. A first claim holds after levels_bytes and levels_seconds. Grade your file with
 *
 *     make grade LESSON=26 EXERCISE=levels FILE=my/hops_levels.c */
#include "lib/comm/hops/hop_rows.h"

#include <math.h>
#include <stdlib.h>

/* TODO 1. The bytes that a rank sends, inside its node and between nodes together. S: bytes of the whole. */
double levels_bytes(int L, int N, double S) {
    (void)L, (void)N, (void)S;
    return NAN;
}

/* TODO 2. The seconds. links: latency_s and s_per_byte, [0] inside a node and [1] between nodes; s_per_byte_added. */
double levels_seconds(int L, int N, double S, const struct hop_links *links) {
    (void)L, (void)N, (void)S, (void)links;
    return NAN;
}

/* TODO 3. The rows of `rank`, in four calls:
 *
 *   ring_reduce_scatter, ring_all_gather      over a team (struct team, hop_rows.h): a list of ranks of the group, in
 *                                             ascending order, this rank's index in it, and a range of elements
 *   team_of_all(shape, rank, table)           all ranks, over all elements; the other two teams are made from it
 *   team_of(shape, list, n, me, range, &all)  some ranks, over a range. The list is borrowed until the rows are made
 *   team_piece(&team, i)                      the range that member i of a team owns; the last ranges may be shorter
 *   hop_node(shape, r)                        the node of rank r
 *   hop_on_node_before(shape, node, r)        the number of ranks before r that are on this node
 *
 * If there is no memory, set table->no_memory and return. */
void levels_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    (void)shape, (void)rank, (void)table;
}
