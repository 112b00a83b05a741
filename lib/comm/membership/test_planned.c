/* ranks: 1  device: cpu */
/* The epochs that a lighthouse plans without a death. test_membership.c shows that they lose no state. */
#include "lib/comm/membership/planned.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

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

TESTS(unit_test(test_replicas_come_back), unit_test(test_who_leaves), unit_test(test_who_is_relieved))
