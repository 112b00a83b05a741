/* ranks: 1  device: cpu */
/* The kept snapshots, rule by rule. lib/comm/membership/test_membership.c tests every order of events. */
#include "lib/comm/membership/membership.h"
#include "tests/test.h"

/* Keep a snapshot of an epoch, with the steps `own` and `left`. */
static void put(struct membership_store *s, int32_t epoch, int32_t from, int64_t own, int64_t left) {
    struct membership_snapshot *x = membership_room(s, epoch, from);
    *x = (struct membership_snapshot){own, left};
}

static void expect_newest(const struct membership_store *s, int32_t epoch, int64_t right, const char *why) {
    int64_t newest = membership_newest(s, epoch);
    if (newest != right)
        fail_msg("epoch %d: the newest step that counts is %lld, and you say %lld: %s", (int)epoch, (long long)right,
                 (long long)newest, why);
}

TEST(test_commit_a_step_counts_with_its_copy) {
    struct membership_store s;
    membership_store_clear(&s);
    expect_newest(&s, 0, -1, "nothing is kept yet");
    put(&s, 0, -1, 3, 3);
    expect_newest(&s, 0, 3, "both are there");
    put(&s, 0, -1, 4, -1);
    expect_newest(&s, 0, 3, "of step 4 the neighbor's copy has not arrived");
    put(&s, 0, -1, 4, 3);
    expect_newest(&s, 0, -1, "a copy of step 3 is none of step 4, and step 3 was the older one");
}

TEST(test_commit_epochs_are_kept_apart) {
    struct membership_store s;
    membership_store_clear(&s);
    put(&s, 1, 0, 5, 5);
    put(&s, 2, 1, 4, 4);
    expect_newest(&s, 1, 5, "step 4 is of epoch 2");
    expect_newest(&s, 2, 4, "step 5 is of epoch 1");
    expect_newest(&s, 3, -1, "nothing is of epoch 3");
    assert_null(membership_find(&s, 2, 5));
    assert_null(membership_find(&s, 1, 4));
    assert_null(membership_find(&s, -1, -1));                        /* -1 is no snapshot */
    const struct membership_snapshot *x = membership_find(&s, 1, 5);
    assert_non_null(x);
    assert_int_equal(x->own_step, 5);
}

TEST(test_commit_the_older_one_goes) {
    struct membership_store s;
    membership_store_clear(&s);
    for (int64_t step = 7; step < 12; step++) {                      /* begins with an odd step */
        put(&s, 0, -1, step, step);
        if (!membership_find(&s, 0, step)) fail_msg("step %lld was kept, and is not found", (long long)step);
        if (step > 7 && !membership_find(&s, 0, step - 1))
            fail_msg("step %lld has taken the place of step %lld: a neighbor may have to go back to that",
                     (long long)step, (long long)step - 1);
    }
    membership_store_clear(&s);
    put(&s, 0, -1, 10, 10), put(&s, 0, -1, 20, 20), put(&s, 0, -1, 30, 30);      /* every tenth step */
    assert_non_null(membership_find(&s, 0, 20));
    assert_null(membership_find(&s, 0, 10));
}

TEST(test_commit_what_all_go_back_to_stays) {
    struct membership_store s;
    for (int first = 0; first < 2; first++) {                        /* epoch 1 in either of the two entries */
        membership_store_clear(&s);
        if (first) put(&s, 0, -1, 1, 1);
        put(&s, 1, 0, 8, 8), put(&s, 1, 0, 9, 9);
        for (int32_t epoch = 2; epoch < 5; epoch++) {                /* none of these is committed */
            put(&s, epoch, 1, 8, 8);
            if (!membership_find(&s, 1, 8) || !membership_find(&s, 1, 9))
                fail_msg("epoch %d has overwritten a snapshot of epoch 1, and all may still go back to that",
                         (int)epoch);
        }
        put(&s, 4, 1, 9, 9);
        assert_non_null(membership_find(&s, 4, 8));
        put(&s, 5, 4, 9, 9); /* epoch 4 is committed, so 1 is not needed */
        assert_non_null(membership_find(&s, 4, 9));
        assert_null(membership_find(&s, 1, 9));
    }
}

TEST(test_commit_only_whole_epochs_are_gone_back_to) {
    struct membership now = {.number = 6, .from = 3, .n = 4};
    assert_int_equal(membership_from(&now, true), 6);
    assert_int_equal(membership_from(&now, false), 3);
    now = (struct membership){.number = 0, .from = -1, .n = 4};
    assert_int_equal(membership_from(&now, false), -1);
}

TESTS(unit_test(test_commit_a_step_counts_with_its_copy), unit_test(test_commit_epochs_are_kept_apart),
      unit_test(test_commit_the_older_one_goes), unit_test(test_commit_what_all_go_back_to_stays),
      unit_test(test_commit_only_whole_epochs_are_gone_back_to))
