/* The mesh's groups: the world is split once for each axis, by the colours of mesh.c.
 *
 * Every rank of the world makes the same calls in the same order, even a rank that the layout does not use or that has
 * failed, because a split waits for all ranks. At the end all ranks agree on a status. */
#include "lib/comm/mesh.h"

#include "lib/comm/comm_backend.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

static void set_identity(const struct mesh_place *place) {
    char host[64], at[64], identity[192];
    comm_host_name(host, sizeof host);
    mesh_place_text(place, at, sizeof at);
    snprintf(identity, sizeof identity, "rank %d/%d %s%s@%s", comm_world_rank(), comm_world_size(), at,
             at[0] ? " " : "", host);
    status_identity(identity);
}

static enum status check_sizes(const struct mesh_sizes *sizes, int world) {
    char text[128];
    double n = mesh_n_ranks(sizes);
    for (int d = 0; d < N_DIMS; d++)
        if (sizes->at[d] < 0 || sizes->at[d] > INT_MAX)
            return FAIL(E_CONFIG, "%s=%" PRId64 " is no number of ranks; use 1 to %d", mesh_dim_name((enum mesh_dim)d),
                        sizes->at[d], world);
    if (n > world)
        return FAIL(E_CONFIG, "%s needs %.0f ranks, and the world has %d", mesh_sizes_text(sizes, text, sizeof text), n,
                    world);
    return OK;
}

enum status mesh_init(struct mesh *mesh, const struct mesh_sizes *sizes) {
    int rank = comm_world_rank();
    *mesh = (struct mesh){0};
    TRY(check_sizes(sizes, comm_world_size()));
    bool used = rank < mesh_n_ranks(sizes);
    mesh->place = used ? mesh_place_of(sizes, rank) : mesh_place_of(&(struct mesh_sizes){.cp_heads = 1}, 0);

    enum status status = OK;
    mesh->group[AXIS_SELF] = group_self();
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < N_MESH_AXES; axis++) {
        int colour = used ? mesh_colour(axis, &mesh->place) : -1;
        const struct mesh_place first = mesh_place_of(sizes, 0);  /* rank 0 is alone along an axis if all ranks are */
        if (mesh_size(axis, &first) == 1) colour = GROUP_ALL_ALONE;
        enum status made = group_create(mesh_axis_name(axis), colour, rank, &mesh->group[axis]);
        if (made == OK) mesh->group[axis]->axis = (int)axis;
        if (status == OK) status = made;
    }
    if (used) set_identity(&mesh->place);
    else comm_world_identity();                                      /* a rank outside the layout has no coordinates */
    return fail_agree(group_world(), status);
}

void mesh_fini(struct mesh *mesh) {
    for (enum mesh_axis axis = AXIS_SELF + 1; axis < N_MESH_AXES; axis++) group_destroy(&mesh->group[axis]);
    mesh->group[AXIS_SELF] = NULL;
    comm_world_identity();
}
