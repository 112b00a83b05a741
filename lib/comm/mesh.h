/* The mesh: rank <-> coordinates, and the group of this rank along every axis.
 *
 *   rank = rank.tp + n.tp (rank.cp + n.cp (rank.dp + n.dp rank.pp))
 *
 * Dimensions are listed innermost first. tp is innermost, so that its ranks, which talk most, are neighbors and stay
 * within a node; then cp, which talks in every layer, too; pp is outermost, since it sends least. dp cp ranks hold the
 * same weights and see other tokens: they are *replicas*, whose gradients are one sum. Source: Narayanan et al. 2021,
 * section 3.2. */
#pragma once

#include "lib/comm/comm.h"

/** The dimensions: at[DIM_TP] in loops over all of them, .tp for one. To add one: a name in both lines, and a row in
 *  mesh.c. */
enum mesh_dim { DIM_TP, DIM_CP, DIM_DP, DIM_PP, N_DIMS };
#define MESH_DIMS(type) union { type at[N_DIMS]; struct { type tp, cp, dp, pp; }; }

/** Sets of ranks that communicate: those that differ in one coordinate only, and others that a technique needs. */
enum mesh_axis {
    AXIS_SELF,  /* this rank alone */
    AXIS_TP,
    AXIS_CP,    /* whose shards of a sequence meet: cp / cp-heads ranks; */
    AXIS_CP_HEADS, /* and neighbors among the ranks of cp that shard heads instead */
    AXIS_DP,    /* replicas: all that see other tokens, dp x cp of them; */
    AXIS_EP,    /* neighbors among the replicas that shard experts; */
    AXIS_EDP,   /* and those that have the same experts, one of each such part: the replicas of an expert */
    AXIS_SHARD, /* neighbors among the replicas that share one state (zero/), if these are not all of them; */
    AXIS_REPLICATE, /* and those that have the same shard of it, one of each such part; */
    AXIS_ESHARD, AXIS_EREPLICATE,   /* the same among the replicas of an expert */
    AXIS_PP,
    AXIS_TIE,   /* the first and last pipeline stage: both hold the tied embedding */
    AXIS_MIRROR,/* stage i and stage pp - 1 - i: with pipelines in both directions they hold the same layers */
    AXIS_HALF,  /* stages of the same half of the pipeline, if both have as many: the layers of an encoder share params
                 * along it, and so do those of its decoder (models/t5/) */
    AXIS_MESH,  /* every rank of the layout */
    AXIS_MODEL, /* one replica of the model: ranks of the same number along dp */
    N_MESH_AXES
};
/** "tp" and so on, as in options, errors and ledgers. */
const char *mesh_dim_name(enum mesh_dim);
const char *mesh_axis_name(enum mesh_axis);
/** Does a report of layouts name the dimension, of n ranks? tp, dp and pp always, others where n is above 1. Pure. */
bool mesh_dim_is_shown(enum mesh_dim, int64_t n);

/** Ranks along each dimension, as options give them. cp_heads: ranks along cp that shard heads together; ep: replicas
 * that shard experts. 0: not given, and counts as 1. shard: replicas that share a state; 0: all. It divides their
 * number; of ep and shard one divides the other. */
struct mesh_sizes { MESH_DIMS(int64_t); int64_t cp_heads, ep, shard; };

/** One rank of a layout: the number of ranks along each dimension, and its coordinates. */
struct mesh_place { MESH_DIMS(int) n, rank; int cp_heads, ep, shard; };

/** The product of the sizes: exact below 2^53. */
double mesh_n_ranks(const struct mesh_sizes *);
/** "dp=2 x pp=4": the sizes that are larger than one, for errors; "dp=1" if none is. */
const char *mesh_sizes_text(const struct mesh_sizes *, char *text, size_t size);

/** Coordinates of a rank; pure. 0 <= rank < mesh_n_ranks <= INT_MAX. */
struct mesh_place mesh_place_of(const struct mesh_sizes *, int rank);
int mesh_rank_of(const struct mesh_place *);
/** "pp0 dp1 tp0", outermost first: the coordinates along dimensions larger than one; "" if none is. */
const char *mesh_place_text(const struct mesh_place *, char *text, size_t size);
/** Ranks of one colour along an axis form its group, in ascending order; the colour is the first of them. -1: the rank
 *  is alone. Pure. */
int mesh_colour(enum mesh_axis, const struct mesh_place *);
/** The size of this rank's group along an axis, and its index there; 1 and 0 if it is alone. Pure. */
int mesh_size(enum mesh_axis, const struct mesh_place *);
int mesh_index(enum mesh_axis, const struct mesh_place *);
/** How far apart neighbors of the group lie in the world; 1 if it is alone. Pure. */
int mesh_stride(enum mesh_axis, const struct mesh_place *);
/** The same place in the first replica of the model (AXIS_MODEL). Pure. */
struct mesh_place mesh_in_first_replica(const struct mesh_place *);
/** This rank is the first of its group, or alone. Pure. */
bool mesh_is_first(enum mesh_axis, const struct mesh_place *);
/** The axes (bits) that cut a step's tensors (seen) but not its weight (own): those over which the weight's gradient is
 *  a sum. AXIS_DP is EP and EDP together: DP without EP is EDP. Pure. */
unsigned mesh_cuts_beyond(unsigned seen, unsigned own);
/** The axis of a sum (bits) that is over replicas: AXIS_DP or AXIS_EDP. Pure. */
enum mesh_axis mesh_replicas(unsigned sum);
/** The axis along which a param's replicas (AXIS_DP or AXIS_EDP) share a state, and the one along which they have the
 *  same shard of it. `replicas` and AXIS_SELF if all share one. Pure. */
enum mesh_axis mesh_shard_axis(enum mesh_axis replicas, const struct mesh_place *);
enum mesh_axis mesh_replicate_axis(enum mesh_axis replicas, const struct mesh_place *);
/** Does this rank count a value that is cut along these axes (bits), with copies along the others, so that a sum over
 *  the mesh has it once? Pure. */
bool mesh_speaks(unsigned cuts, const struct mesh_place *);

struct mesh {
    struct mesh_place place;
    struct group *group[N_MESH_AXES];
};

/** Groups of a layout over the first mesh_n_ranks of the world. Ranks beyond take part in the call and get groups of
 *  one. Sets the process identity to "rank r/n pp0 dp1 @host" until mesh_fini. All ranks get the same status
 *  (fail_agree).
 *  @collective{world} @errors E_CONFIG if the world is too small, E_COMM, E_MEMORY */
enum status mesh_init(struct mesh *, const struct mesh_sizes *);
void mesh_fini(struct mesh *); /* @collective{world} */
