/* The mesh: rank <-> (pp, dp, tp), and the group of this rank along every axis.
 *
 *   rank = (pp_rank * dp + dp_rank) * tp + tp_rank
 *
 * tp is innermost, so that its ranks, which talk most, are neighbours and stay within a node; pp is outermost, since it
 * sends least. Source: Narayanan et al. 2021, section 3.2. */
#ifndef TRIVIUM_COMM_MESH_H
#define TRIVIUM_COMM_MESH_H

#include "lib/comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum mesh_axis {
    AXIS_SELF,  /* this rank alone */
    AXIS_TP, AXIS_DP, AXIS_PP,
    AXIS_TIE,   /* the first and last pipeline stage: both hold the tied embedding */
    AXIS_MESH,  /* every rank of the layout */
    N_MESH_AXES
};
/** "tp" and so on, as in errors and ledgers. */
const char *mesh_axis_name(enum mesh_axis);

struct mesh_place { int dp, tp, pp, dp_rank, tp_rank, pp_rank; };

/** Coordinates of a rank; pure. 0 <= rank < dp tp pp. */
struct mesh_place mesh_place_of(int dp, int tp, int pp, int rank);
int mesh_rank_of(const struct mesh_place *);

struct mesh {
    struct mesh_place place;
    struct group *group[N_MESH_AXES];
};

/** Groups of a layout over the first dp tp pp ranks of the world. Ranks beyond take part in the call and get groups of one.
 *  Sets the process identity to "rank r/n ppX dpY tpZ @host" until mesh_fini. All ranks get the same status (fail_agree).
 *  @collective{world} @errors E_CONFIG if the world is too small, E_COMM, E_MEMORY */
enum status mesh_init(struct mesh *, int dp, int tp, int pp);
void mesh_fini(struct mesh *); /* @collective{world} */

#ifdef __cplusplus
}
#endif
#endif
