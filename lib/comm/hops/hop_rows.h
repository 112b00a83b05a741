/* Functions with which algorithms write their rows. Private to lib/comm/hops/hops_*.c.
 *
 * A team is some ranks of the group, in an order; team rank i owns piece i of a range of elements. Hierarchical
 * algorithms are calls on teams within a node and across nodes. */
#pragma once

#include "lib/comm/hops/hops.h"

struct range { int64_t first, end; };
struct team {
    const int *rank;               /* rank of the group for each rank of the team; NULL: the same */
    int n, me;
    struct range whole;            /* the elements that the team works on, */
    int64_t piece;                 /* in n pieces of this size; the last ones may have less */
    int64_t segment;               /* longer rows are cut; 0: never */
    enum hop_space space;          /* where: TO, or SCRATCH */
    struct hop_table *table;
    bool after_sums;               /* what it receives is passed on to no one, and waits for its sums */
};

/** Everybody, over the whole of the shape. */
struct team team_of_all(const struct hop_shape *, int rank, struct hop_table *);
/** Some of them, `rank` of the group, over a part `whole`: pieces of an equal number of lines. */
struct team team_of(const struct hop_shape *, const int *rank, int n, int me, struct range, const struct team *like);
/** The rank of the group that is team rank i modulo n, and the elements of piece i modulo n, or of pieces i to j - 1.
 *  */
int team_rank(const struct team *, int i);
struct range team_piece(const struct team *, int i);
struct range team_pieces(const struct team *, int i, int j);

/** Append rows, cut into segments, over elements of the team's space. Nothing for an empty range. */
void hop_send(const struct team *, int to, struct range);
void hop_recv(const struct team *, int from, struct range);
void hop_add(const struct team *, int from, struct range);
/** The number of segments of a range; segment i of them. */
int64_t hop_segments(const struct team *, struct range);
struct range hop_segment(const struct team *, struct range, int64_t i);
/** Send from another space. */
void hop_send_from(const struct team *, enum hop_space, int to, struct range);
void hop_copy(const struct team *, enum hop_space to, int64_t first, enum hop_space from, struct range);

/* A reduce_scatter must leave its source alone, and a reduce its x but at the root: they sum in a copy of the whole.
 * Around the rows of a sum in team->space: copy in; afterwards copy this rank's part out. */
enum hop_space hop_space_of(const struct hop_shape *, int rank);
void hop_copy_in(const struct hop_shape *, const struct team *);
void hop_copy_out(const struct hop_shape *, const struct team *);

/* The two phases of most algorithms, for any team: afterwards team rank i has the sum of piece i; and all have all. */
void ring_reduce_scatter(const struct team *);
void ring_all_gather(const struct team *);

extern const struct comm_algorithm hops_pairwise, hops_ring, hops_halving, hops_halving_near, hops_doubling, hops_tree,
    hops_double_tree, hops_hierarchical, hops_main, hops_message;
