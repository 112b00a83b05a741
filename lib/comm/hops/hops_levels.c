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

void levels_rows(const struct hop_shape *shape, int rank, struct hop_table *table) {
    int n = shape->n, node = hop_node(shape, rank), place = hop_on_node_before(shape, node, rank);
    int n_inside = 0, n_between = 0, me_between = 0;
    int *ranks = malloc(2 * (size_t)n * sizeof *ranks), *inside = ranks, *between = ranks + n;
    if (!ranks) {
        table->no_memory = true;
        return;
    }
    for (int r = 0; r < n; r++) {
        if (hop_node(shape, r) == node) inside[n_inside++] = r;
        if (hop_on_node_before(shape, hop_node(shape, r), r) != place) continue;
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

/* Each returns the bytes of a rank in all phases; S/L is a part. */
static double inside(int L, double S) { return 2.0 * (L - 1) * (S / L); }
static double between(int L, int N, double S) { return 2.0 * (N - 1) * (S / L) / N; }

double levels_bytes(int L, int N, double S) { return inside(L, S) + between(L, N, S); }

double levels_seconds(int L, int N, double S, const struct hop_links *links) {
    return 2 * (L - 1) * links->latency_s[0] + inside(L, S) * links->s_per_byte[0] + 2 * (N - 1) * links->latency_s[1] +
           between(L, N, S) * links->s_per_byte[1] + levels_bytes(L, N, S) / 2 * links->s_per_byte_added;
}
