/* Exercise: the arithmetic of the mesh (lesson 10, "Ranks and coordinates").
 *
 *   rank = (pp_rank dp + dp_rank) tp + tp_rank
 *
 * tp is innermost: its ranks are neighbours. The group of a rank along an axis holds the ranks that differ from it in that coordinate only. Groups are
 * made by splitting the world: every rank says a colour, ranks of one colour form a group (group_create, lib/comm/comm.h), in the
 * order of their ranks. So all that has to be found is the way back from a rank to its coordinates, and for each axis a number that all ranks of a
 * group have in common and no other rank has. mesh_init, given below, does the rest. */
#include "lib/comm/mesh.h"

#include "lib/comm/comm_backend.h"

#include <stdio.h>

const char *mesh_axis_name(enum mesh_axis axis) {
    static const char *const names[N_MESH_AXES] = {
        [AXIS_SELF] = "self", [AXIS_TP] = "tp",   [AXIS_DP] = "dp",
        [AXIS_PP] = "pp",     [AXIS_TIE] = "tie", [AXIS_MESH] = "mesh",
    };
    return (unsigned)axis < N_MESH_AXES ? names[axis] : "unknown axis";
}

/* TODO: the coordinates of a rank, 0 <= rank < dp tp pp. Fill in all six fields. */
struct mesh_place mesh_place_of(int dp, int tp, int pp, int rank) {
    (void)rank;
    return (struct mesh_place){.dp = dp, .tp = tp, .pp = pp, .dp_rank = -1, .tp_rank = -1, .pp_rank = -1};
}

/* TODO: the way back. */
int mesh_rank_of(const struct mesh_place *place) {
    (void)place;
    return -1;
}

/* TODO: ranks with one colour (0 or more) along an axis form its group; -1: this rank stays alone. AXIS_TP, AXIS_DP, AXIS_PP as said above.
 * AXIS_TIE: the first and the last stage of a pipeline, which both hold the tied embedding; nobody where there is one stage. AXIS_MESH:
 * everybody. */
static int colour_along(enum mesh_axis axis, struct mesh_place place) {
    (void)axis, (void)place;
    return -1;
}

static void set_identity(const struct mesh_place *place) {
    char host[64], identity[128];
    comm_host_name(host, sizeof host);
    snprintf(identity, sizeof identity, "rank %d/%d pp%d dp%d tp%d @%s", comm_world_rank(), comm_world_size(),
             place->pp_rank, place->dp_rank, place->tp_rank, host);
    status_identity(identity);
}

enum status mesh_init(struct mesh *mesh, int dp, int tp, int pp) {
    int rank = comm_world_rank(), size = comm_world_size();
    *mesh = (struct mesh){0};
    if (dp < 1 || tp < 1 || pp < 1 || (double)dp * tp * pp > size)
        return FAIL(E_CONFIG, "dp=%d tp=%d pp=%d needs %.0f ranks, and the world has %d", dp, tp, pp,
                    (double)dp * tp * pp, size);
    bool used = rank < dp * tp * pp;
    if (used) mesh->place = mesh_place_of(dp, tp, pp, rank);
    else mesh->place = mesh_place_of(1, 1, 1, 0);

    enum status status = OK;
    mesh->group[AXIS_SELF] = group_self();
    for (enum mesh_axis axis = AXIS_TP; axis < N_MESH_AXES; axis++) {
        int colour = used ? colour_along(axis, mesh->place) : -1;
        enum status made = group_create(mesh_axis_name(axis), colour, rank, &mesh->group[axis]);
        if (made == OK && axis == AXIS_PP) made = group_carry_messages(mesh->group[axis]);
        if (made == OK) mesh->group[axis]->axis = (int)axis;
        if (status == OK) status = made;
    }
    if (used) set_identity(&mesh->place);
    else comm_world_identity();                                      /* beyond the layout there are no coordinates */
    return fail_agree(group_world(), status);
}

void mesh_fini(struct mesh *mesh) {
    for (enum mesh_axis axis = AXIS_TP; axis < N_MESH_AXES; axis++) group_destroy(&mesh->group[axis]);
    mesh->group[AXIS_SELF] = NULL;
    comm_world_identity();
}
