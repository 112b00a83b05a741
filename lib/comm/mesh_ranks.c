/* The mesh's arithmetic: a rank's coordinates and back, as digits of a number in a mixed base, or as some of these
 * digits. Which ranks are in a group is in mesh.c. Pure. */
#include "lib/comm/mesh.h"

static int at_least_1(int64_t n) { return n ? (int)n : 1; }          /* 0: not given */

struct mesh_place mesh_place_of(const struct mesh_sizes *sizes, int rank) {
    struct mesh_place p = {
        .cp_heads = at_least_1(sizes->cp_heads), .ep = at_least_1(sizes->ep), .shard = (int)sizes->shard};
    for (int d = 0; d < N_DIMS; d++) {
        p.n.at[d] = at_least_1(sizes->at[d]);
        p.rank.at[d] = rank % p.n.at[d];
        rank /= p.n.at[d];
    }
    return p;
}

int mesh_rank_of(const struct mesh_place *p) {
    int rank = 0;
    for (int d = N_DIMS; d-- > 0;) rank = rank * p->n.at[d] + p->rank.at[d];
    return rank;
}

int mesh_rank_along(unsigned dims, struct mesh_place p, int number) {
    for (int d = 0; d < N_DIMS; d++)
        if (dims >> d & 1) {
            p.rank.at[d] = number % at_least_1(p.n.at[d]);
            number /= at_least_1(p.n.at[d]);
        }
    return mesh_rank_of(&p);
}
