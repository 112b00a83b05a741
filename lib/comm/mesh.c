/* The mesh: a rank's coordinates, and the group of this rank along every axis.
 *
 * rank = (pp_rank dp + dp_rank) tp + tp_rank. The group along an axis holds the ranks that differ in that coordinate
 * only, so its colour is the rank that results when that coordinate is set to zero. With dp=2 tp=2 pp=2:
 *
 *   rank  0 1 2 3 4 5 6 7        tp: {0 1} {2 3} {4 5} {6 7}     dp: {0 2} {1 3} {4 6} {5 7}     pp: {0 4} {1 5} {2 6} {3 7}
 *
 * Every rank of the world makes the same calls in the same order, also those that the layout does not use, and also one
 * that has already failed: a split waits for everybody. Afterwards all agree. */
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

struct mesh_place mesh_place_of(int dp, int tp, int pp, int rank) {
    return (struct mesh_place){
        .dp = dp, .tp = tp, .pp = pp,
        .dp_rank = rank / tp % dp, .tp_rank = rank % tp, .pp_rank = rank / (tp * dp),
    };
}

int mesh_rank_of(const struct mesh_place *place) {
    return (place->pp_rank * place->dp + place->dp_rank) * place->tp + place->tp_rank;
}

/* Ranks with one colour along an axis form its group; -1: this rank stays alone. */
static int colour_along(enum mesh_axis axis, struct mesh_place place) {
    bool outer = place.pp > 1 && (place.pp_rank == 0 || place.pp_rank == place.pp - 1);
    switch (axis) {
    case AXIS_TP: place.tp_rank = 0; break;
    case AXIS_DP: place.dp_rank = 0; break;
    case AXIS_PP: place.pp_rank = 0; break;
    case AXIS_TIE:
        if (!outer) return -1;
        place.pp_rank = 0;
        break;
    case AXIS_MESH: return 0;
    default: return -1;
    }
    return mesh_rank_of(&place);
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
