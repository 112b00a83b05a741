/* Exercise: the arithmetic of the mesh (lesson 10, "Ranks and coordinates").
 *
 *   rank = rank.tp + n.tp (rank.cp + n.cp (rank.dp + n.dp rank.pp))
 *
 * There are two types, of lib/comm/mesh.h:
 *
 *   struct mesh_sizes    the number of ranks along each dimension, as options give them
 *   struct mesh_place    the same numbers, n, and one rank's coordinates, rank
 *
 * Dimensions are numbered from the innermost: n.at[0] is n.tp, n.at[N_DIMS - 1] is n.pp. tp is innermost, so that its
 * ranks are neighbors. The table of lib/comm/mesh.c says which ranks are in a group, and its functions call yours.
 *
 * After the first two functions the claims on coordinates hold: grade then. */
#include "lib/comm/mesh.h"

static int at_least_1(int64_t n) { return n ? (int)n : 1; }          /* 0: not given */

/* TODO 1: the coordinates of a rank, 0 <= rank < mesh_n_ranks(sizes). The sizes are given. */
struct mesh_place mesh_place_of(const struct mesh_sizes *sizes, int rank) {
    struct mesh_place p = {
        .cp_heads = at_least_1(sizes->cp_heads), .ep = at_least_1(sizes->ep), .shard = (int)sizes->shard};
    for (int d = 0; d < N_DIMS; d++) p.n.at[d] = at_least_1(sizes->at[d]), p.rank.at[d] = -1;
    (void)rank;
    return p;
}

/* TODO 2: the rank with these coordinates. */
int mesh_rank_of(const struct mesh_place *p) {
    (void)p;
    return -1;
}

/* TODO 3: ranks that differ from p in some dimensions only, those of an axis, are numbered: 0, 1, 2, ..., the innermost
 * of these dimensions first. Return the rank with this number. Bit d of `dims` says whether dimension d is one of them;
 * along the others the rank has p's coordinates. With tp=2 dp=2 pp=2, rank 5 is in the dp group {5 7}: along dp, dims
 * is 1 << DIM_DP, number 0 is rank 5, and number 1 is rank 7. The group's first rank is its colour: ranks of one colour
 * form a group when the world is split. */
int mesh_rank_along(unsigned dims, struct mesh_place p, int number) {
    (void)dims, (void)p, (void)number;
    return -1;
}
