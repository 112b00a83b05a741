/* ranks: 1  device: cpu */
/* The pure functions of epochs, one by one: the members, the holder of a shard, the places of its copies, and the step
 * that all go back to. test_membership.c tests them together. */
#include "lib/comm/membership/membership.h"
#include "lib/comm/membership/planned.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

static const struct membership_shape ALL = {1, 1, 0, 0, 0, {0}};  /* every rank is a replica */

/* The slots of the epoch after `now`, whose places are slots 0 to n - 1, without the dead ones: "0 1 4 3". */
static const char *after(const struct membership_shape *shape, int n, int n_slots, const char *dead) {
    static char text[256];
    struct membership now = {.number = 4, .from = 3, .n = n};
    bool alive[MEMBERSHIP_MOST_RANKS];
    for (int s = 0; s < n_slots; s++) alive[s] = !strchr(dead, '0' + s);
    for (int s = 0; s < n; s++) now.slot[s] = s;
    struct membership next = membership_after(&now, true, alive, n_slots, shape);
    text[0] = 0;
    for (int i = 0; i < next.n; i++) sprintf(text + strlen(text), "%s%d", i ? " " : "", (int)next.slot[i]);
    return text;
}

TEST(test_who_is_a_member) {
    const struct membership now = {.number = 4, .from = 3, .n = 3, .slot = {0, 5, 2}};
    const struct membership_shape all = {1, 1, 0, 0, 0, {0}};
    struct membership next = membership_after(&now, true, (bool[]){true, true, true, true, true, false}, 6, &all);
    assert_true(next.number == 5 && next.from == 4 && next.n == 3);
    assert_true(next.slot[0] == 0 && next.slot[1] == 1 && next.slot[2] == 2);        /* the first spare has the place */
    next = membership_after(&now, false, (bool[]){false, false, true, false, false, true}, 6, &all);
    assert_true(next.from == 3 && next.n == 2 && next.slot[0] == 5 && next.slot[1] == 2);
    next = membership_after(&now, false, (bool[]){false, false, false, true, true, false}, 6, &all);
    assert_true(next.n == 2 && next.slot[0] == 3 && next.slot[1] == 4);
    assert_int_equal(membership_place(&now, 5), 1);
    assert_int_equal(membership_place(&now, 1), -1);
}

/* tp 2, dp 3: replicas {0 1} {2 3} {4 5}. tp 1, pp 2, dp 3: {0 3} {1 4} {2 5}. */
TEST(test_replicas_are_left_out_whole) {
    const struct membership_shape tp = {2, 1, 0, 0, 0, {0}}, pp = {1, 2, 0, 0, 0, {0}}, both = {2, 2, 0, 0, 0, {0}};
    assert_string_equal(after(&tp, 6, 6, "2"), "0 1 4 5");
    assert_string_equal(after(&tp, 6, 6, "25"), "0 1 4 3");             /* 4 of the third replica takes 2's place */
    assert_string_equal(after(&tp, 6, 7, "2"), "0 1 6 3 4 5");          /* the spare takes the dead rank's place */
    assert_string_equal(after(&pp, 6, 6, "4"), "0 2 3 5");
    assert_string_equal(after(&pp, 6, 6, "42"), "0 1 3 5");
    assert_string_equal(after(&both, 8, 8, "0"), "2 3 6 7");            /* replicas {0 1 4 5} {2 3 6 7} */
    assert_string_equal(after(&both, 8, 8, "026"), "3 1 4 5");
    assert_string_equal(after(&both, 4, 4, "1"), "");
}

TEST(test_the_batch_is_kept) {
    const struct membership_shape batch = {1, 1, 12, 0, 0, {0}}, micro = {1, 1, 16, 4, 0, {0}};
    assert_string_equal(after(&batch, 6, 6, "5"), "0 1 2 4");           /* 5 does not divide 12; 4 has 3's shard */
    assert_string_equal(after(&batch, 4, 4, "0"), "1 2 3");
    assert_string_equal(after(&micro, 4, 4, "1"), "0 2");               /* 3 does not divide 16 */
    assert_string_equal(after(&(struct membership_shape){1, 1, 12, 4, 0, {0}}, 4, 5, "13"), "0 4 2");
    assert_string_equal(after(&(struct membership_shape){1, 1, 12, 6, 0, {0}}, 4, 4, "1"), "0 2");
}

/* One rank dies, and up to half of the replicas are left out. Each shard's owner or its right neighbor stays. */
TEST(test_who_is_left_out_takes_no_shard_along) {
    for (int n = 2; n <= 16; n++)
        for (int left = (n + 1) / 2; left < n; left++)
            for (int dead = 0; dead < n; dead++) {
                const struct membership_shape shape = {1, 1, left, 0, 0, {0}};
                struct membership now = {.number = 4, .from = 3, .n = n};
                bool alive[MEMBERSHIP_MOST_RANKS], copy;
                for (int s = 0; s < n; s++) now.slot[s] = s, alive[s] = s != dead;
                const struct membership next = membership_after(&now, true, alive, n, &shape);
                assert_int_equal(next.n, left);
                for (int i = 0; i < n; i++) assert_true(membership_holder(&now, &shape, i, &next, &copy) >= 0);
            }
}

TEST(test_some_numbers_are_refused) {
    const struct membership_shape powers = {1, 1, 0, 0, 6, {1 << 3 | 1 << 5}};
    assert_string_equal(after(&powers, 4, 4, "1"), "0 2");              /* 3 replicas are refused */
    assert_string_equal(after(&powers, 2, 5, ""), "0 1 2 3");           /* 5 replicas are refused */
    assert_true(membership_refuses(&(struct membership_shape){.refused = {0, 0, 2, 0}}, 129) &&
                !membership_refuses(&powers, 300));
}

TEST(test_who_has_a_shard) {
    const struct membership from = {.n = 3, .slot = {0, 1, 2}}, now = {.n = 2, .slot = {0, 2}};
    const struct membership one = {.n = 1, .slot = {0}};
    bool copy;
    assert_true(membership_holder(&from, &ALL, 0, &now, &copy) == 0 && !copy);
    assert_true(membership_holder(&from, &ALL, 1, &now, &copy) == 2 && copy);
    assert_true(membership_holder(&from, &ALL, 2, &one, &copy) == 0 && copy);
    assert_int_equal(membership_holder(&from, &ALL, 1, &one, &copy), -1);
    assert_int_equal(membership_holder(&one, &ALL, 0, &(struct membership){.n = 1, .slot = {3}}, &copy), -1);
}

/* tp 2, pp 2, dp 2: replicas {0 1 4 5} {2 3 6 7}. */
TEST(test_copies_are_in_another_replica) {
    const struct membership_shape both = {2, 2, 0, 0, 0, {0}}, tp = {2, 1, 0, 0, 0, {0}};
    const struct membership eight = {.n = 8}, four = {.n = 4}, one = {.n = 1};
    const int right[] = {2, 3, 0, 1, 6, 7, 4, 5};
    for (int i = 0; i < 8; i++) {
        assert_int_equal(membership_right(&both, &eight, i), right[i]);
        assert_int_equal(membership_left(&both, &eight, right[i]), i);
        assert_int_equal(membership_right(&tp, &eight, i), (i + 2) % 8);
        assert_int_equal(membership_right(&both, &four, i % 4), (i + 1) % 4); /* one replica */
        assert_int_equal(membership_left(&tp, &eight, i), (i + 6) % 8);
    }
    assert_int_equal(membership_right(&ALL, &one, 0), 0);
}

/* Count the places whose copy is on another host. Each place must have a copy, in another replica if there is one. */
static int count_crossing(const struct membership_shape *shape, const struct membership *e) {
    int crossing = 0, n = e->n / (shape->n_inner * shape->n_outer);
    bool taken[MEMBERSHIP_MOST_RANKS] = {false};
    for (int i = 0; i < e->n; i++) {
        int right = membership_right(shape, e, i);
        assert_false(taken[right]);
        assert_int_equal(membership_left(shape, e, right), i);
        assert_true(n == 1 || right / shape->n_inner % n != i / shape->n_inner % n);
        taken[right] = true;
        crossing += e->host[i] != e->host[right];
    }
    return crossing;
}

/* As many copies as possible are on another host: all, if no host has more than half of the ranks. */
TEST(test_copies_are_on_another_host) {
    const struct membership_shape tp = {2, 1, 0, 0, 0, {0}}, pp = {1, 2, 0, 0, 0, {0}}, whole = {4, 1, 0, 0, 0, {0}};
    const struct { struct membership e; const struct membership_shape *shape; int crossing; } cases[] = {
        {{.n = 4, .host = {0, 0, 1, 1}}, &ALL, 4},           /* two on each host */
        {{.n = 6, .host = {0, 0, 1, 1, 2, 2}}, &ALL, 6},
        {{.n = 6, .host = {5, 5, 5, 2, 2, 2}}, &ALL, 6},
        {{.n = 4, .host = {0, 1, 0, 1}}, &ALL, 4},           /* in turn */
        {{.n = 4, .host = {0, 0, 1, 2}}, &ALL, 4},           /* uneven */
        {{.n = 5, .host = {0, 2, 1, 1, 2}}, &ALL, 5},        /* a spare on host 2 has taken place 1 */
        {{.n = 4, .host = {0, 0, 0, 1}}, &ALL, 2},
        {{.n = 8, .host = {0, 0, 0, 0, 1, 1, 1, 1}}, &tp, 8},        /* two replicas on each host */
        {{.n = 4, .host = {0, 0, 1, 1}}, &tp, 4},            /* one replica on each host */
        {{.n = 6, .host = {0, 0, 1, 1, 2, 2}}, &pp, 4},      /* each stage: two ranks on one host, one on another */
        {{.n = 4, .host = {0, 0, 1, 1}}, &pp, 0},            /* one stage on each host */
        {{.n = 4, .host = {0, 0, 1, 1}}, &whole, 4},         /* one replica on two hosts */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        assert_int_equal(count_crossing(cases[k].shape, &cases[k].e), cases[k].crossing);
    for (int k = 0; k < 1 << 12; k++) {                              /* six places on four hosts, in every way */
        struct membership e = {.n = 6};
        int on[4] = {0}, most = 0;
        for (int i = 0; i < 6; i++) on[e.host[i] = (int16_t)(k >> 2 * i & 3)]++;
        for (int h = 0; h < 4; h++) most = on[h] > most ? on[h] : most;
        assert_int_equal(count_crossing(&ALL, &e), most <= 3 ? 6 : 2 * (6 - most));
    }
}

/* When a host is lost, no shard is lost, because each shard has a holder on the other host. */
TEST(test_a_lost_host_takes_no_shard_with_it) {
    const struct membership from = {.n = 4, .slot = {0, 1, 2, 3}, .host = {0, 0, 1, 1}};
    const struct membership left = {.n = 2, .slot = {2, 3}};
    bool copy;
    assert_true(membership_holder(&from, &ALL, 0, &left, &copy) == 2 && copy);
    assert_true(membership_holder(&from, &ALL, 1, &left, &copy) == 3 && copy);
    assert_true(membership_holder(&from, &ALL, 3, &left, &copy) == 3 && !copy);
}

TEST(test_all_go_back_to_the_least) {
    const struct membership from = {.n = 3, .slot = {0, 1, 2}}, now = {.n = 3, .slot = {0, 4, 2}};
    const struct membership two = {.n = 1, .slot = {4}};
    const int64_t said[] = {7, -1, 6}, other[] = {6, -1, 7}, new[] = {-1, -1, 6};
    assert_int_equal(membership_back(said, &ALL, &now, &from), 6);           /* place 1 was a spare, without a step */
    assert_int_equal(membership_back(other, &ALL, &now, &from), 6);
    assert_int_equal(membership_back(new, &ALL, &now, &from), -1);           /* a former member has no step yet */
    assert_int_equal(membership_back(said, &ALL, &two, &from), -1);          /* no former member is left */
    assert_int_equal(membership_back(said, &ALL, &now, &(struct membership){.n = 0}), -1);
}

TEST(test_rows_are_whole) {
    for (int i = 0; i < n_member_rows; i++) {
        const struct member_row *x = &member_rows[i];
        assert_ptr_equal(member_row(x->state, x->event), x);                          /* no second row has this key */
        assert_non_null(x->what);
    }
    for (int s = 0; s < N_MEMBER_STATES; s++)
        assert_non_null(member_row((enum member_state)s, EVENT_MEMBER));
    assert_null(member_row(MEMBER_RUN, EVENT_COPIED));
    assert_string_equal(member_state_name(MEMBER_COPY), "COPY");
    assert_string_equal(member_state_name(N_MEMBER_STATES), "?");
}

/* The epochs that a lighthouse plans without a death. test_membership.c shows that they lose no state. */

/* Places are slots 0 to n - 1. A letter per slot: r ready, s starting, d dead, w asks for relief, l must leave. */
static struct planned plan_of(const struct membership_shape *shape, int n, const char *slots, int least) {
    static bool ready[MEMBERSHIP_MOST_RANKS], alive[MEMBERSHIP_MOST_RANKS];
    static int request[MEMBERSHIP_MOST_RANKS];
    struct planned_job job = {{.number = 4, .n = n, .from = 3}, ready, alive, request, (int)strlen(slots), least,
                              *shape};
    for (int s = 0; s < n; s++) job.now.slot[s] = s;
    for (int s = 0; slots[s]; s++) {
        request[s] = slots[s] == 'w' ? MEMBER_WANTS_RELIEF : slots[s] == 'l' ? MEMBER_LEAVES : MEMBER_STAYS;
        ready[s] = slots[s] == 'r';
        alive[s] = slots[s] != 'd';
    }
    return planned_membership(&job);
}

/* A plan as text: "0 1 4 without 2", "none". */
static const char *text_of(struct planned p) {
    static char text[256];
    text[0] = 0;
    for (int i = 0; i < p.next.n; i++) sprintf(text + strlen(text), "%s%d", i ? " " : "", (int)p.next.slot[i]);
    if (p.next.n == 0) strcpy(text, "none");
    if (p.leaves >= 0) sprintf(text + strlen(text), " without %d", p.leaves);
    if (p.cannot >= 0) sprintf(text + strlen(text), ", %d cannot", p.cannot);
    return text;
}

TEST(test_replicas_come_back) {
    const struct membership_shape all = {1, 1, 0, 0, 4, {0}}, tp = {2, 1, 0, 0, 6, {0}}, batch = {1, 1, 16, 0, 4, {0}};
    struct planned p = plan_of(&all, 3, "rrrr", 2);
    assert_string_equal(text_of(p), "0 1 2 3");
    assert_true(p.next.number == 5 && p.next.from == 4);
    assert_string_equal(text_of(plan_of(&all, 3, "rrrdrr", 2)), "0 1 2 4");      /* at most as many as at the start */
    assert_string_equal(text_of(plan_of(&all, 4, "rrrrr", 2)), "none");
    assert_string_equal(text_of(plan_of(&all, 3, "rrrs", 2)), "none");           /* the spare is still starting */
    assert_string_equal(text_of(plan_of(&tp, 4, "rrrrr", 2)), "none");           /* half a replica */
    assert_string_equal(text_of(plan_of(&tp, 4, "rrrrrr", 2)), "0 1 2 3 4 5");
    assert_string_equal(text_of(plan_of(&batch, 2, "rrr", 2)), "none");          /* 3 does not divide 16 */
    assert_string_equal(text_of(plan_of(&batch, 2, "rrrr", 2)), "0 1 2 3");
}

TEST(test_who_leaves) {
    const struct membership_shape all = {1, 1, 0, 0, 4, {0}}, tp = {2, 1, 0, 0, 4, {0}}, one = {1, 1, 0, 0, 1, {0}};
    assert_string_equal(text_of(plan_of(&all, 4, "rlrrr", 2)), "0 4 2 3 without 1");
    assert_string_equal(text_of(plan_of(&all, 4, "rlrr", 2)), "0 2 3 without 1");
    assert_string_equal(text_of(plan_of(&all, 4, "rllrrr", 2)), "0 4 2 3 without 1");    /* one at a time */
    assert_string_equal(text_of(plan_of(&all, 4, "rlrr", 4)), "none, 1 cannot");         /* too few would be left */
    assert_string_equal(text_of(plan_of(&one, 1, "lr", 1)), "none, 0 cannot");           /* no other rank has its
                                                                                            shard */
    assert_string_equal(text_of(plan_of(&all, 1, "lr", 1)), "0 1");                      /* first, 1 gets a copy */
    assert_string_equal(text_of(plan_of(&tp, 4, "rrlr", 2)), "0 1 without 2");           /* its replica leaves, too */
    assert_string_equal(text_of(plan_of(&all, 3, "rlrsl", 2)), "0 2 without 1");         /* 3 and 4 are not ready */
}

TEST(test_who_is_relieved) {
    const struct membership_shape all = {1, 1, 0, 0, 4, {0}};
    assert_string_equal(text_of(plan_of(&all, 4, "rwrrr", 2)), "0 4 2 3 without 1");
    assert_string_equal(text_of(plan_of(&all, 4, "rwrr", 2)), "none");                   /* there is no spare */
    assert_string_equal(text_of(plan_of(&all, 4, "rwrrs", 2)), "none");
    assert_string_equal(text_of(plan_of(&all, 3, "rwrrr", 2)), "0 3 2 4 without 1");     /* dp grows at once, too */
}

TESTS(unit_test(test_who_is_a_member), unit_test(test_replicas_are_left_out_whole), unit_test(test_the_batch_is_kept),
      unit_test(test_who_is_left_out_takes_no_shard_along), unit_test(test_some_numbers_are_refused),
      unit_test(test_who_has_a_shard), unit_test(test_copies_are_in_another_replica),
      unit_test(test_copies_are_on_another_host), unit_test(test_a_lost_host_takes_no_shard_with_it),
      unit_test(test_all_go_back_to_the_least), unit_test(test_rows_are_whole), unit_test(test_replicas_come_back),
      unit_test(test_who_leaves), unit_test(test_who_is_relieved))
