/* Functions with which algorithms write their rows. Private to lib/comm/hops/hops_*.c.
 *
 * A team is an ordered list of ranks of the group; team rank i owns piece i of a range of elements. Hierarchical
 * algorithms call these functions for teams within a node and across nodes. */
#pragma once

#include "lib/comm/hops/hops.h"

struct range { int64_t first, end; };
struct team {
    const int *rank;               /* [n]: the rank in the group of each team rank; NULL: the same rank */
    int n, me;
    struct range whole;            /* the elements that the team works on */
    int64_t piece;                 /* elements of each of the n pieces; the last ones may have fewer */
    int64_t segment;               /* longest row, in elements; longer ones are cut; 0: no limit */
    enum hop_space space;          /* where: TO, or SCRATCH */
    struct hop_table *table;
    bool after_sums;               /* received elements wait for all sums before them, as no other rank needs them */
};

/** The team of all ranks, over the whole buffer of the shape. */
struct team team_of_all(const struct hop_shape *, int rank, struct hop_table *);
/** The team of the n ranks `rank` of the group, over the range `whole`, in pieces of equal numbers of lines; the other
 *  fields are as in `like`. */
struct team team_of(const struct hop_shape *, const int *rank, int n, int me, struct range, const struct team *like);
/** team_rank: the rank in the group of team rank i modulo n. team_piece: the elements of piece i modulo n. team_pieces:
 *  the elements of pieces i to j - 1. */
int team_rank(const struct team *, int i);
struct range team_piece(const struct team *, int i);
struct range team_pieces(const struct team *, int i, int j);

/** Append rows over elements of the team's space, cut into segments. For an empty range they append nothing. */
void hop_send(const struct team *, int to, struct range);
void hop_recv(const struct team *, int from, struct range);
void hop_add(const struct team *, int from, struct range);
/** hop_segments: the number of segments of a range. hop_segment: its segment i. */
int64_t hop_segments(const struct team *, struct range);
struct range hop_segment(const struct team *, struct range, int64_t i);
/** Send from another space. */
void hop_send_from(const struct team *, enum hop_space, int to, struct range);
void hop_copy(const struct team *, enum hop_space to, int64_t first, enum hop_space from, struct range);

/* A reduce_scatter must not change its source, nor a reduce its x except on the root: they sum in a copy of the whole
 * buffer. Around the rows of the sum in team->space: first copy in, and at the end copy this rank's part out. */
enum hop_space hop_space_of(const struct hop_shape *, int rank);
void hop_copy_in(const struct hop_shape *, const struct team *);
void hop_copy_out(const struct hop_shape *, const struct team *);

/* The two phases of most algorithms, for any team. After ring_reduce_scatter, team rank i has the sum of piece i; after
 * ring_all_gather, all ranks have all pieces. */
void ring_reduce_scatter(const struct team *);
void ring_all_gather(const struct team *);

/** What the row of the hierarchical all-reduce is made of (hops_levels.c): rows; by closed forms for N nodes of L ranks
 *  and S bytes, the bytes that a rank sends, and the seconds. hop_on_node_before: ranks below `rank` on the node. */
int hop_on_node_before(const struct hop_shape *, int node, int rank);
void levels_rows(const struct hop_shape *, int rank, struct hop_table *);
double levels_bytes(int L, int N, double S), levels_seconds(int L, int N, double S, const struct hop_links *);

extern const struct comm_algorithm hops_pairwise, hops_ring, hops_halving, hops_halving_near, hops_doubling, hops_tree,
    hops_double_tree, hops_hierarchical, hops_main, hops_message;
