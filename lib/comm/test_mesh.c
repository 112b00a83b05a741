/* ranks: 1 2 4 8  device: cpu */
/* Coordinates are a bijection with tp innermost; groups hold exactly the ranks that differ in one coordinate. */
#include "tests/test.h"

#include "lib/comm/mesh.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 8 };

TEST(test_coordinates_are_a_bijection) {
    for (int dp = 1; dp <= 4; dp++)
        for (int tp = 1; tp <= 4; tp++)
            for (int pp = 1; pp <= 4; pp++)
                for (int rank = 0; rank < dp * tp * pp; rank++) {
                    struct mesh_place p = mesh_place_of(&(struct mesh_sizes){.dp = dp, .tp = tp, .pp = pp}, rank);
                    assert_int_equal(mesh_rank_of(&p), rank);
                    assert_true(p.rank.dp < dp && p.rank.tp < tp && p.rank.pp < pp);
                }
}

/* The order that users rely on: with dp=2 tp=2 pp=2, rank 5 has pp 1, dp 0, tp 1. */
TEST(test_tp_is_innermost) {
    struct mesh_sizes cube = {.dp = 2, .tp = 2, .pp = 2}, flat = {.tp = 4, .pp = 2};      /* without dp, dp is 1 */
    struct mesh_place p = mesh_place_of(&cube, 5);
    if (p.rank.pp != 1 || p.rank.dp != 0 || p.rank.tp != 1)
        fail_msg("with dp=2 tp=2 pp=2 rank 5 is pp 1, dp 0, tp 1, and you say pp %d, dp %d, tp %d%s", p.rank.pp,
                 p.rank.dp, p.rank.tp, p.rank.dp == 1 && p.rank.tp == 0 ? ": in yours dp is innermost, not tp" : "");
    for (int rank = 0; rank < 3; rank++) assert_int_equal(mesh_place_of(&flat, rank + 4).rank.tp, rank);
}

static int replica_of(struct mesh_place p) { return p.rank.dp * p.n.cp + p.rank.cp; }

/* Are replicas i and j in one group of this axis? Blocks of `shard` replicas share a state; in each block, replicas
 * with the same experts share the experts' state. */
static bool together_in_shards(enum mesh_axis axis, int i, int j, const struct mesh_place *a) {
    int all = a->n.dp * a->n.cp, shard = a->shard ? a->shard : all;
    bool of_experts = axis == AXIS_ESHARD || axis == AXIS_EREPLICATE, same_block = i / shard == j / shard;
    if (shard == all || (of_experts && a->ep == 1)) return false;    /* then AXIS_DP or AXIS_EDP is the axis */
    switch (axis) {
    case AXIS_SHARD: return same_block;
    case AXIS_REPLICATE: return i % shard == j % shard;
    case AXIS_ESHARD: return same_block && i % a->ep == j % a->ep;
    default: return i % a->ep == j % a->ep && i % shard == j % shard;
    }
}

/* Must ranks a and b share a group along an axis? This follows the axis's definition, not mesh.c's colours. */
static bool together(enum mesh_axis axis, struct mesh_place a, struct mesh_place b) {
    bool same_tp = a.rank.tp == b.rank.tp, same_replica = replica_of(a) == replica_of(b);
    bool same_pp = a.rank.pp == b.rank.pp;
    bool a_outer = a.rank.pp == 0 || a.rank.pp == a.n.pp - 1, b_outer = b.rank.pp == 0 || b.rank.pp == b.n.pp - 1;
    switch (axis) {
    case AXIS_TP: return same_replica && same_pp;
    case AXIS_CP: return same_tp && same_pp && a.rank.dp == b.rank.dp;
    case AXIS_DP: return same_tp && same_pp;
    case AXIS_EP: return same_tp && same_pp && replica_of(a) / a.ep == replica_of(b) / b.ep;
    case AXIS_EDP:
        return same_tp && same_pp && (same_replica || (a.ep > 1 && (replica_of(a) - replica_of(b)) % a.ep == 0));
    case AXIS_SHARD: case AXIS_ESHARD: case AXIS_REPLICATE: case AXIS_EREPLICATE:
        return same_tp && same_pp && (same_replica || together_in_shards(axis, replica_of(a), replica_of(b), &a));
    case AXIS_PP: return same_tp && same_replica;
    case AXIS_TIE: return same_tp && same_replica && (same_pp || (a_outer && b_outer));
    case AXIS_MIRROR:
        return same_tp && same_replica && (same_pp || a.rank.pp + b.rank.pp == a.n.pp - 1);
    case AXIS_HALF: {
        bool even = a.n.pp % 2 == 0, same_half = (a.rank.pp < a.n.pp / 2) == (b.rank.pp < b.n.pp / 2);
        return same_tp && same_replica && (same_pp || (even && same_half));
    }
    case AXIS_MESH: return true;
    case AXIS_MODEL: return a.rank.dp == b.rank.dp;
    default: return same_tp && same_replica && same_pp;
    }
}

/* The coordinates of a rank, by division: tp is innermost, then cp, dp and pp. */
static struct mesh_place place_by_hand(const struct mesh_sizes *sizes, int rank) {
    struct mesh_place p = mesh_place_of(sizes, rank);
    p.rank.tp = rank % p.n.tp, rank /= p.n.tp;
    p.rank.cp = rank % p.n.cp, rank /= p.n.cp;
    p.rank.dp = rank % p.n.dp, rank /= p.n.dp;
    p.rank.pp = rank;
    return p;
}

/* The first wrong group, as "dp=2 x tp=2, group tp of rank 0: you say 0 2, right is 0 1". */
static char wrong[256];
static void note_wrong(const struct mesh_sizes *sizes, const struct group *group, const int32_t *members,
                       const int *right, int n_right) {
    char text[64];
    if (*wrong) return;
    int at = snprintf(wrong, sizeof wrong, "%s, group %s of rank %d: you say",
                      mesh_sizes_text(sizes, text, sizeof text), group_name(group), comm_world_rank());
    for (int i = 0; i < group_size(group); i++)
        at += snprintf(wrong + at, sizeof wrong - (size_t)at, " %d", (int)members[i]);
    at += snprintf(wrong + at, sizeof wrong - (size_t)at, ", right is");
    for (int i = 0; i < n_right; i++) at += snprintf(wrong + at, sizeof wrong - (size_t)at, " %d", right[i]);
}
static void assert_none_wrong(bool ok) {
    if (*wrong) {
        char text[sizeof wrong];
        memcpy(text, wrong, sizeof text), *wrong = 0;
        fail_msg("%s", text);
    }
    if (!ok) fail_msg("a group of another rank is wrong");
}

/* Gather the members' world ranks. They must be the expected ranks in ascending order. */
static bool group_is_right(const struct mesh *mesh, const struct mesh_sizes *sizes, enum mesh_axis axis, bool used) {
    int32_t mine = comm_world_rank(), members[MAX_RANKS];
    int right[MAX_RANKS];
    const struct mesh_place place = place_by_hand(sizes, mine);
    const struct group *group = mesh->group[axis];
    bool ok = comm_all_gather(group, &mine, members, 1, INT32) == OK;
    int n = 0;
    for (int r = 0; r < mesh_n_ranks(sizes) && used; r++) {
        struct mesh_place other = place_by_hand(sizes, r);
        if (!together(axis, place, other)) continue;
        right[n] = r;
        ok &= n < group_size(group) && members[n] == r;
        if (r == mine) ok &= group_rank(group) == n;
        n++;
    }
    if (!used) right[0] = mine, n = 1;
    ok &= n == mesh_size(axis, &mesh->place) && mesh_is_first(axis, &mesh->place) == (group_rank(group) == 0);
    ok &= n == group_size(group);
    if (!ok) note_wrong(sizes, group, members, right, n);
    return ok && strcmp(group_name(group), mesh_axis_name(axis)) == 0;
}

static bool layout_is_right(const struct mesh_sizes *sizes) {
    struct mesh mesh;
    if (!agree_all(mesh_init(&mesh, sizes) == OK)) return false;
    bool ok = true, used = comm_world_rank() < mesh_n_ranks(sizes);
    for (enum mesh_axis axis = 0; axis < N_MESH_AXES; axis++) ok &= group_is_right(&mesh, sizes, axis, used);
    mesh_fini(&mesh);
    return agree_all(ok);
}

/* Test every layout that fits, including those that do not use all ranks. */
TEST(test_groups_of_every_layout) {
    int n = comm_world_size();
    bool ok = true;
    for (int dp = 1; dp <= n; dp++)
        for (int tp = 1; dp * tp <= n; tp++)
            for (int pp = 1; dp * tp * pp <= n; pp++)
                ok &= layout_is_right(&(struct mesh_sizes){.dp = dp, .tp = tp, .pp = pp});
    assert_none_wrong(ok);
}

/* ep splits the dp x cp replicas: neighbors form an EP group, and an EDP group has one replica of each EP group. */
TEST(test_groups_of_experts) {
    int n = comm_world_size();
    bool ok = true;
    for (int dp = 1; dp <= n; dp *= 2)
        for (int tp = 1; dp * tp <= n; tp *= 2)
            for (int ep = 1; ep <= dp; ep *= 2)
                ok &= layout_is_right(&(struct mesh_sizes){.dp = dp, .tp = tp, .ep = ep});
    assert_none_wrong(ok);
    const struct mesh_place p = mesh_place_of(&(struct mesh_sizes){.tp = 2, .cp = 2, .dp = 4, .ep = 4}, 11);
    assert_int_equal(mesh_size(AXIS_EP, &p), 4);                     /* rank 11 (dp 2, cp 1) is replica 5, of 4 to 7 */
    assert_int_equal(mesh_index(AXIS_EP, &p), 1);
    assert_int_equal(mesh_colour(AXIS_EP, &p), 9);
    assert_int_equal(mesh_size(AXIS_EDP, &p), 2);                    /* replicas 1 and 5 */
    assert_int_equal(mesh_colour(AXIS_EDP, &p), 3);
}

/* dp x cp = replicate x shard, with and without experts. */
TEST(test_groups_of_shards) {
    int n = comm_world_size();
    bool ok = true;
    for (int dp = 1; dp <= n; dp *= 2)
        for (int cp = 1; dp * cp <= n; cp *= 2)
            for (int shard = 1; shard <= dp * cp; shard *= 2)
                for (int ep = 1; ep <= dp * cp; ep *= 2)
                    ok &= layout_is_right(&(struct mesh_sizes){.dp = dp, .cp = cp, .ep = ep, .shard = shard});
    assert_none_wrong(ok);
    const struct mesh_place p = mesh_place_of(&(struct mesh_sizes){.tp = 2, .cp = 2, .dp = 6, .shard = 4}, 23);
    assert_int_equal(mesh_index(AXIS_SHARD, &p), 3);                 /* replica 11 of 12: index 3 in the third block */
    assert_int_equal(mesh_colour(AXIS_SHARD, &p), 17);
    assert_int_equal(mesh_index(AXIS_REPLICATE, &p), 2);
    assert_int_equal(mesh_colour(AXIS_REPLICATE, &p), 7);
}

TEST(test_shards_have_axes_of_their_own_where_not_all_share) {
    const struct mesh_place all = mesh_place_of(&(struct mesh_sizes){.dp = 4, .ep = 2}, 3),
                            told = mesh_place_of(&(struct mesh_sizes){.dp = 4, .ep = 2, .shard = 4}, 3),
                            half = mesh_place_of(&(struct mesh_sizes){.dp = 4, .ep = 2, .shard = 2}, 3);
    assert_int_equal(mesh_shard_axis(AXIS_DP, &all), AXIS_DP);
    assert_int_equal(mesh_shard_axis(AXIS_EDP, &told), AXIS_EDP);
    assert_int_equal(mesh_replicate_axis(AXIS_DP, &told), AXIS_SELF);
    assert_int_equal(mesh_replicate_axis(AXIS_EDP, &all), AXIS_SELF);
    assert_int_equal(mesh_shard_axis(AXIS_DP, &half), AXIS_SHARD);
    assert_int_equal(mesh_replicate_axis(AXIS_DP, &half), AXIS_REPLICATE);
    assert_int_equal(mesh_shard_axis(AXIS_EDP, &half), AXIS_ESHARD);
    assert_int_equal(mesh_replicate_axis(AXIS_EDP, &half), AXIS_EREPLICATE);
}

/* Sizes that are not yet checked must not cause a crash. */
TEST(test_sizes_that_do_not_divide_have_some_place) {
    static const struct mesh_sizes odd[] = {{.dp = 2, .ep = 4}, {.dp = 4, .shard = 8}, {.dp = 4, .shard = 3, .ep = 2},
                                            {.cp = 2, .cp_heads = 4}, {.dp = 2, .shard = 4, .ep = 8}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int rank = 0; rank < mesh_n_ranks(&odd[i]); rank++) {
            const struct mesh_place p = mesh_place_of(&odd[i], rank);
            for (enum mesh_axis a = 0; a < N_MESH_AXES; a++)
                assert_true(mesh_size(a, &p) >= 1 && mesh_index(a, &p) < mesh_size(a, &p));
            mesh_speaks(0, &p);
        }
}

/* The distance between neighbors of a group is the number of ranks in the dimensions inside. */
TEST(test_strides_of_groups) {
    const struct mesh_sizes sizes = {.tp = 2, .cp = 4, .dp = 4, .pp = 4, .cp_heads = 2, .ep = 4, .shard = 8};
    const struct mesh_place p = mesh_place_of(&sizes, 11), last = mesh_place_of(&sizes, 127);
    static const struct { enum mesh_axis axis; int stride; } EXPECTED[] = {
        {AXIS_SELF, 1}, {AXIS_TP, 1}, {AXIS_CP_HEADS, 2}, {AXIS_CP, 4}, {AXIS_DP, 2}, {AXIS_EP, 2}, {AXIS_EDP, 8},
        {AXIS_SHARD, 2}, {AXIS_REPLICATE, 16}, {AXIS_ESHARD, 8}, {AXIS_EREPLICATE, 16},
        {AXIS_PP, 32}, {AXIS_TIE, 96}, {AXIS_HALF, 32}, {AXIS_MESH, 1}};
    for (size_t i = 0; i < sizeof EXPECTED / sizeof *EXPECTED; i++)
        assert_int_equal(mesh_stride(EXPECTED[i].axis, &p), EXPECTED[i].stride);
    assert_int_equal(mesh_stride(AXIS_TIE, &last), 96);
    assert_int_equal(mesh_stride(AXIS_MIRROR, &p), 96);
}

/* ---- along which axes a gradient is summed, and which ranks contribute to a sum ---- */
enum { DP = 1 << AXIS_DP, EP = 1 << AXIS_EP, EDP = 1 << AXIS_EDP, TP = 1 << AXIS_TP };

TEST(test_what_ep_has_cut_is_summed_over_the_rest_of_the_replicas) {
    assert_int_equal(mesh_cuts_beyond(DP, 0), DP);
    assert_int_equal(mesh_cuts_beyond(DP | EP, EP), EDP);
    assert_int_equal(mesh_cuts_beyond(DP | EP | TP, EP), EDP | TP);
    assert_int_equal(mesh_cuts_beyond(DP | TP, TP), DP);
    assert_int_equal(mesh_cuts_beyond(EP, DP), 0);
    assert_int_equal(mesh_replicas(EDP | TP), AXIS_EDP);
    assert_int_equal(mesh_replicas(DP | TP), AXIS_DP);
    assert_int_equal(mesh_replicas(0), AXIS_DP);
}

static int n_speakers(unsigned cuts, const struct mesh_sizes *sizes) {
    int n = 0;
    for (int rank = 0; rank < mesh_n_ranks(sizes); rank++) {
        const struct mesh_place p = mesh_place_of(sizes, rank);
        n += mesh_speaks(cuts, &p);
    }
    return n;
}

TEST(test_each_expert_is_counted_by_one_rank) {
    const struct mesh_sizes folded = {.tp = 2, .cp = 2, .dp = 4, .ep = 4}, plain = {.tp = 2, .dp = 4};
    assert_int_equal(n_speakers(0, &folded), 1);
    assert_int_equal(n_speakers(EP, &folded), 4);
    assert_int_equal(n_speakers(EP | TP, &folded), 8);
    assert_int_equal(n_speakers(EP | EDP, &folded), 8);
    assert_int_equal(n_speakers(EP | DP, &folded), 8);
    assert_int_equal(n_speakers(DP, &folded), 8);
    assert_int_equal(n_speakers(0, &plain), 1);
    assert_int_equal(n_speakers(DP, &plain), 4);
}

enum { SHARD = 1 << AXIS_SHARD, ESHARD = 1 << AXIS_ESHARD, REPLICATE = 1 << AXIS_REPLICATE };

/* If every block of replicas has all shards of a tensor, only one block contributes. */
TEST(test_each_shard_is_counted_by_one_rank) {
    const struct mesh_sizes dense = {.tp = 2, .cp = 2, .dp = 4, .shard = 4},
                            few = {.dp = 8, .ep = 2, .shard = 4}, many = {.dp = 8, .ep = 4, .shard = 2};
    assert_int_equal(n_speakers(SHARD, &dense), 4);
    assert_int_equal(n_speakers(SHARD | TP, &dense), 8);
    assert_int_equal(n_speakers(SHARD | REPLICATE, &dense), 8);
    assert_int_equal(n_speakers(DP, &dense), 8);
    assert_int_equal(n_speakers(0, &dense), 1);
    assert_int_equal(n_speakers(EP | ESHARD, &few), 4);
    assert_int_equal(n_speakers(EP, &few), 2);
    assert_int_equal(n_speakers(EP | ESHARD, &many), 4);             /* 4 places of experts, each with one shard */
    assert_int_equal(n_speakers(SHARD, &many), 2);
}

TEST(test_identity_names_the_place) {
    struct mesh mesh;
    char before[128], expected[64];
    snprintf(before, sizeof before, "%s", status_identity_text());
    int n = comm_world_size();
    bool made = mesh_init(&mesh, &(struct mesh_sizes){.dp = n}) == OK;
    if (n == 1) snprintf(expected, sizeof expected, "rank 0/1 @");
    else snprintf(expected, sizeof expected, "rank %d/%d dp%d @", comm_world_rank(), n, comm_world_rank());
    bool right = strncmp(status_identity_text(), expected, strlen(expected)) == 0;
    mesh_fini(&mesh);
    snprintf(expected, sizeof expected, "rank %d/%d @", comm_world_rank(), n);
    right &= strncmp(status_identity_text(), expected, strlen(expected)) == 0;
    status_identity(before);
    assert_true(agree_all(made && right));
}

/* Texts name the outermost dimension first, and leave out dimensions of size one. */
TEST(test_texts_leave_out_what_is_one) {
    char text[64];
    struct mesh_sizes sizes = {.dp = 2, .pp = 3}, one = {.dp = 0};
    struct mesh_place last = mesh_place_of(&sizes, 5), only = mesh_place_of(&one, 0);
    assert_string_equal(mesh_sizes_text(&sizes, text, sizeof text), "dp=2 x pp=3");
    assert_string_equal(mesh_sizes_text(&one, text, sizeof text), "dp=1");
    assert_string_equal(mesh_place_text(&last, text, sizeof text), "pp2 dp1");
    assert_string_equal(mesh_place_text(&only, text, sizeof text), "");
}

TEST(test_too_large_a_layout_is_refused) {
    struct mesh mesh;
    int n = comm_world_size();
    assert_fails(mesh_init(&mesh, &(struct mesh_sizes){.dp = n, .tp = 2}), E_CONFIG, "tp=2", "needs");
    assert_fails(mesh_init(&mesh, &(struct mesh_sizes){.pp = -1}), E_CONFIG, "pp=-1");
    assert_fails(mesh_init(&mesh, &(struct mesh_sizes){.dp = INT_MAX, .tp = INT_MAX, .pp = INT_MAX}), E_CONFIG,
                 "dp=2147483647");
}

TESTS(unit_test(test_coordinates_are_a_bijection), unit_test(test_tp_is_innermost),
      unit_test(test_groups_of_every_layout), unit_test(test_groups_of_experts), unit_test(test_groups_of_shards),
      unit_test(test_shards_have_axes_of_their_own_where_not_all_share),
      unit_test(test_sizes_that_do_not_divide_have_some_place), unit_test(test_strides_of_groups),
      unit_test(test_what_ep_has_cut_is_summed_over_the_rest_of_the_replicas),
      unit_test(test_each_expert_is_counted_by_one_rank), unit_test(test_each_shard_is_counted_by_one_rank),
      unit_test(test_identity_names_the_place),
      unit_test(test_texts_leave_out_what_is_one), unit_test(test_too_large_a_layout_is_refused))
