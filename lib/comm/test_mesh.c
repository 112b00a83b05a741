/* ranks: 1 2 4 8  device: cpu */
/* Coordinates are a bijection with tp innermost; groups hold exactly the ranks that differ in one coordinate. */
#include "tests/test.h"

#include "lib/comm/mesh.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 8 };

static void test_coordinates_are_a_bijection(void **state) {
    (void)state;
    for (int dp = 1; dp <= 4; dp++)
        for (int tp = 1; tp <= 4; tp++)
            for (int pp = 1; pp <= 4; pp++)
                for (int rank = 0; rank < dp * tp * pp; rank++) {
                    struct mesh_place p = mesh_place_of(dp, tp, pp, rank);
                    assert_int_equal(mesh_rank_of(&p), rank);
                    assert_true(p.dp_rank < dp && p.tp_rank < tp && p.pp_rank < pp);
                }
}

/* The order that DESIGN and users rely on: dp=2 tp=2 pp=2, rank 5 = pp 1, dp 0, tp 1. */
static void test_tp_is_innermost(void **state) {
    (void)state;
    struct mesh_place p = mesh_place_of(2, 2, 2, 5);
    assert_int_equal(p.pp_rank, 1);
    assert_int_equal(p.dp_rank, 0);
    assert_int_equal(p.tp_rank, 1);
    for (int rank = 0; rank < 3; rank++) assert_int_equal(mesh_place_of(1, 4, 2, rank + 4).tp_rank, rank);
}

/* Which ranks should share this rank's group along an axis, from the definition and in another way than mesh.c's
 * colours. */
static bool together(enum mesh_axis axis, struct mesh_place a, struct mesh_place b) {
    bool same_tp = a.tp_rank == b.tp_rank, same_dp = a.dp_rank == b.dp_rank, same_pp = a.pp_rank == b.pp_rank;
    bool a_outer = a.pp_rank == 0 || a.pp_rank == a.pp - 1, b_outer = b.pp_rank == 0 || b.pp_rank == b.pp - 1;
    switch (axis) {
    case AXIS_TP: return same_dp && same_pp;
    case AXIS_DP: return same_tp && same_pp;
    case AXIS_PP: return same_tp && same_dp;
    case AXIS_TIE: return same_tp && same_dp && (same_pp || (a_outer && b_outer));
    case AXIS_MESH: return true;
    default: return same_tp && same_dp && same_pp;
    }
}

/* Members by a gather of world ranks; they must be the expected ones in ascending order. */
static bool group_is_right(const struct mesh *mesh, enum mesh_axis axis, bool used) {
    int32_t mine = comm_world_rank(), members[MAX_RANKS];
    const struct group *group = mesh->group[axis];
    bool ok = comm_all_gather(group, &mine, members, 1, INT32) == OK;
    int n = 0;
    int n_mesh = mesh->place.dp * mesh->place.tp * mesh->place.pp;
    for (int r = 0; r < n_mesh && used; r++) {
        struct mesh_place other = mesh_place_of(mesh->place.dp, mesh->place.tp, mesh->place.pp, r);
        if (!together(axis, mesh->place, other)) continue;
        ok &= n < group_size(group) && members[n] == r;
        if (r == mine) ok &= group_rank(group) == n;
        n++;
    }
    if (!used) n = 1;
    return ok && n == group_size(group) && strcmp(group_name(group), mesh_axis_name(axis)) == 0;
}

static bool layout_is_right(int dp, int tp, int pp) {
    struct mesh mesh;
    if (!agree_all(mesh_init(&mesh, dp, tp, pp) == OK)) return false;
    bool ok = true, used = comm_world_rank() < dp * tp * pp;
    for (enum mesh_axis axis = 0; axis < N_MESH_AXES; axis++) ok &= group_is_right(&mesh, axis, used);
    mesh_fini(&mesh);
    return agree_all(ok);
}

/* Every layout that fits, also those that leave ranks over. */
static void test_groups_of_every_layout(void **state) {
    (void)state;
    int n = comm_world_size();
    bool ok = true;
    for (int dp = 1; dp <= n; dp++)
        for (int tp = 1; dp * tp <= n; tp++)
            for (int pp = 1; dp * tp * pp <= n; pp++) ok &= layout_is_right(dp, tp, pp);
    assert_true(ok);
}

static void test_identity_names_the_place(void **state) {
    (void)state;
    struct mesh mesh;
    char before[128], expected[64];
    snprintf(before, sizeof before, "%s", status_identity_text());
    int n = comm_world_size();
    bool made = mesh_init(&mesh, n, 1, 1) == OK;
    snprintf(expected, sizeof expected, "rank %d/%d pp0 dp%d tp0 @", comm_world_rank(), n, comm_world_rank());
    bool right = strncmp(status_identity_text(), expected, strlen(expected)) == 0;
    mesh_fini(&mesh);
    snprintf(expected, sizeof expected, "rank %d/%d @", comm_world_rank(), n);
    right &= strncmp(status_identity_text(), expected, strlen(expected)) == 0;
    status_identity(before);
    assert_true(agree_all(made && right));
}

static void test_too_large_a_layout_is_refused(void **state) {
    (void)state;
    struct mesh mesh;
    int n = comm_world_size();
    assert_fails(mesh_init(&mesh, n, 2, 1), E_CONFIG, "tp=2", "needs");
    assert_fails(mesh_init(&mesh, 1, 1, 0), E_CONFIG, "pp=0");
    assert_fails(mesh_init(&mesh, 2000000000, 2000000000, 2000000000), E_CONFIG, "dp=2000000000");
}

TESTS(unit_test(test_coordinates_are_a_bijection), unit_test(test_tp_is_innermost), unit_test(test_groups_of_every_layout),
      unit_test(test_identity_names_the_place), unit_test(test_too_large_a_layout_is_refused))
