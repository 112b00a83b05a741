/* The mesh: rank <-> coordinates, and the group of this rank along every axis.
 *
 *   rank = rank.tp + n.tp (rank.cp + n.cp (rank.dp + n.dp rank.pp))
 *
 * Dimensions are listed innermost first. tp is innermost, so that its ranks, which communicate most, are neighbors
 * within a node; then cp, which also communicates in every layer; pp is outermost, since it sends least. dp x cp ranks
 * have the same weights and different tokens: they are *replicas*, whose gradients are added up. Source: Narayanan et
 * al. 2021, section 3.2. */
#pragma once

#include "lib/comm/comm.h"

/** The dimensions: at[DIM_TP] in loops over all of them, .tp for a single one. A new dimension needs a name in both
 *  lines, and a row in mesh.c. */
enum mesh_dim { DIM_TP, DIM_CP, DIM_DP, DIM_PP, N_DIMS };
#define MESH_DIMS(type) union { type at[N_DIMS]; struct { type tp, cp, dp, pp; }; }

/** Groups of ranks that communicate: ranks that differ in one coordinate only, and groups that a technique needs. */
enum mesh_axis {
    AXIS_SELF,  /* this rank alone */
    AXIS_TP,
    AXIS_CP,    /* the cp / cp-heads ranks that exchange their shards of a sequence in attention */
    AXIS_CP_HEADS, /* the cp-heads neighbors among the ranks of cp that shard heads */
    AXIS_DP,    /* all dp x cp replicas, which have different tokens */
    AXIS_EP,    /* neighboring replicas that together have all experts */
    AXIS_EDP,   /* replicas with the same experts, one of each EP group */
    AXIS_SHARD, /* neighboring replicas that share one state (zero/), if not all replicas do */
    AXIS_REPLICATE, /* replicas with the same shard of the state, one of each SHARD group */
    AXIS_ESHARD, AXIS_EREPLICATE,   /* SHARD and REPLICATE among the replicas of an expert */
    AXIS_PP,
    AXIS_TIE,   /* the first and last pipeline stage, which both have the tied embedding */
    AXIS_MIRROR,/* stage i and stage pp - 1 - i, which have the same layers if pipelines run in both directions */
    AXIS_HALF,  /* stages of the same half of the pipeline, if pp is even: the layers of an encoder share params along
                 * it, and so do those of its decoder (models/t5/) */
    AXIS_MESH,  /* every rank of the layout */
    AXIS_MODEL, /* one replica of the model: all ranks with the same index along dp */
    N_MESH_AXES
};
/** The name, such as "tp", as in options, errors and ledgers. */
const char *mesh_dim_name(enum mesh_dim);
const char *mesh_axis_name(enum mesh_axis);
/** Does a report of layouts name this dimension, which has n ranks? tp, dp and pp are always named, others if n is
 *  above 1. Pure. */
bool mesh_dim_is_shown(enum mesh_dim, int64_t n);

/** Ranks along each dimension, as options give them; 0: not given, and counts as 1. cp_heads: ranks along cp that shard
 *  heads together; ep: replicas that shard experts; shard: replicas that share a state, 0: all. shard divides the
 *  number of replicas; ep divides shard, or shard divides ep. */
struct mesh_sizes { MESH_DIMS(int64_t); int64_t cp_heads, ep, shard; };

/** The place of one rank in a layout: the number of ranks along each dimension, and its coordinates. */
struct mesh_place { MESH_DIMS(int) n, rank; int cp_heads, ep, shard; };

/** The number of ranks, the product of the sizes: exact below 2^53. */
double mesh_n_ranks(const struct mesh_sizes *);
/** The sizes larger than one as text, for errors: "dp=2 x pp=4"; "dp=1" if there are none. */
const char *mesh_sizes_text(const struct mesh_sizes *, char *text, size_t size);

/** Coordinates of a rank; pure. 0 <= rank < mesh_n_ranks <= INT_MAX. */
struct mesh_place mesh_place_of(const struct mesh_sizes *, int rank);
int mesh_rank_of(const struct mesh_place *);
/** Ranks that differ from a place in some dimensions only (bit d of dims for at[d]) are numbered from 0, the innermost
 *  of these dimensions first: the rank with this number. Pure. */
int mesh_rank_along(unsigned dims, struct mesh_place, int number);
/** The coordinates along dimensions larger than one as text, outermost first: "pp0 dp1 tp0"; "" if there are none. */
const char *mesh_place_text(const struct mesh_place *, char *text, size_t size);
/** Ranks with the same colour along an axis form a group, in ascending order; the colour is its first rank. -1: the
 *  rank is alone. Pure. */
int mesh_colour(enum mesh_axis, const struct mesh_place *);
/** The size of this rank's group along an axis, and its index in the group; 1 and 0 if it is alone. Pure. */
int mesh_size(enum mesh_axis, const struct mesh_place *);
int mesh_index(enum mesh_axis, const struct mesh_place *);
/** The distance in world ranks between neighbors of the group; 1 if the rank is alone. Pure. */
int mesh_stride(enum mesh_axis, const struct mesh_place *);
/** The same place in the first replica of the model (AXIS_MODEL). Pure. */
struct mesh_place mesh_in_first_replica(const struct mesh_place *);
/** Is this rank the first of its group, or alone? Pure. */
bool mesh_is_first(enum mesh_axis, const struct mesh_place *);
/** The axes (bits) over which a weight's gradient is a sum: they cut the step's tensors (seen) but not the weight
 *  (own). AXIS_DP is EP and EDP together, so DP without EP is EDP. Pure. */
unsigned mesh_cuts_beyond(unsigned seen, unsigned own);
/** The axis of replicas among the axes of a sum, which are given as bits: AXIS_DP or AXIS_EDP. Pure. */
enum mesh_axis mesh_replicas(unsigned sum);
/** For the replicas of a param (AXIS_DP or AXIS_EDP). mesh_shard_axis: the axis along which they share a state.
 *  mesh_replicate_axis: the axis along which they have the same shard. `replicas`, AXIS_SELF if all share one. Pure. */
enum mesh_axis mesh_shard_axis(enum mesh_axis replicas, const struct mesh_place *);
enum mesh_axis mesh_replicate_axis(enum mesh_axis replicas, const struct mesh_place *);
/** Does this rank contribute to a sum over the mesh, which must count each value once? The value is cut along the axes
 *  `cuts` (bits), and equal on all ranks along the other axes. Pure. */
bool mesh_speaks(unsigned cuts, const struct mesh_place *);

struct mesh {
    struct mesh_place place;
    struct group *group[N_MESH_AXES];
};

/** Make the groups of a layout over the first mesh_n_ranks of the world. Other ranks also make the call, and get groups
 *  of one rank. Sets the process identity to "rank r/n pp0 dp1 @host" until mesh_fini. All ranks get the same status
 *  (fail_agree). @collective{world} @errors E_CONFIG if the world is too small, E_COMM, E_MEMORY */
enum status mesh_init(struct mesh *, const struct mesh_sizes *);
void mesh_fini(struct mesh *); /* @collective{world} */
