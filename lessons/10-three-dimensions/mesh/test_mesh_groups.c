/* ranks: 1 2 4 8  device: cpu
 *
 * The number of groups of a large mesh, from coordinates only; and a run that uses all groups of a mesh. */
#include "driver/recipe.h"
#include "lib/comm/mesh.h"
#include "tests/layouts.h"
#include "tests/test.h"

enum { TP = 8, PP = 4, DP = 3, N = TP * PP * DP };
static const struct mesh_sizes SIZES = {.tp = TP, .dp = DP, .pp = PP};
enum along { ALONG_TP, ALONG_DP, ALONG_PP };

static bool together(enum along along, struct mesh_place a, struct mesh_place b) {
    return (along == ALONG_TP || a.rank.tp == b.rank.tp) && (along == ALONG_DP || a.rank.dp == b.rank.dp) &&
           (along == ALONG_PP || a.rank.pp == b.rank.pp);
}

/* Count groups by their first ranks. Each must have `size` members. */
static int count(enum along along, int size) {
    int groups = 0;
    for (int r = 0; r < N; r++) {
        struct mesh_place mine = mesh_place_of(&SIZES, r);
        int before = 0, members = 0;
        for (int other = 0; other < N; other++) {
            bool with = together(along, mine, mesh_place_of(&SIZES, other));
            members += with;
            before += with && other < r;
        }
        if (members != size) return -1;
        groups += before == 0;
    }
    return groups;
}

TEST(test_mesh_counts_groups_of_96_ranks) {
    expect_number("groups along tp, of 8 ranks each, in a mesh of 96", count(ALONG_TP, TP), 12);
    expect_number("groups along pp, of 4 ranks each, in a mesh of 96", count(ALONG_PP, PP), 24);
    expect_number("groups along dp, of 3 ranks each, in a mesh of 96", count(ALONG_DP, DP), 32);
}

TEST(test_mesh_trains_in_three_dimensions) {
    struct reference ref = {0};
    struct difference d = {0};
    struct mesh mesh;
    struct plan plan = parity_plan();
    int n = comm_world_size();
    plan.layers = 2;
    /* fails unless the run has all ranks, because a serial run of one rank would pass */
    bool meshed = agree_all(mesh_init(&mesh, &(struct mesh_sizes){.dp = n}) == OK);
    meshed = meshed && agree_all(group_size(mesh.group[AXIS_MESH]) == n && mesh.place.rank.dp == comm_world_rank());
    mesh_fini(&mesh);
    if (!meshed) fail_msg("with dp=%d, the mesh has not all %d ranks, or a rank has another dp than its number", n, n);
    enum status status = reference_init(&ref, &plan);
    plan.micro_batch = 2;
    plan.mesh.dp = n >= 8 ? 2 : 1;
    plan.mesh.tp = n >= 2 ? 2 : 1;
    plan.mesh.pp = n >= 4 ? 2 : 1;
    if (agree_all(status == OK)) status = plan_settle(&plan, n);
    if (agree_all(status == OK)) status = layout_compare(&plan, &ref, &d);
    reference_fini(&ref);
    assert_ok(status);
    assert_close(d.loss, 0, 1e-10);
    assert_close(d.norm, 0, 1e-10);
    assert_close(d.grad, 0, 1e-10);
    assert_close(d.wire, 0, 1e-12);
}

TESTS(unit_test(test_mesh_counts_groups_of_96_ranks), unit_test(test_mesh_trains_in_three_dimensions))
