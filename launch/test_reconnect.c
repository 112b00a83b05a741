/* ranks: 1  device: cpu */
/* Lost connections between two live ranks, and the acts that follow. The job is only a memory, without processes. */
#include "launch/reconnect.h"
#include "tests/test.h"

#include <string.h>

enum { N = 4 };
static struct own_memory memory;
static bool there[N];
static struct reconnect r;
static const struct members view = {.memory = &memory, .n_slots = N, .n_at_first = N, .least = 2, .there = there};

/* Open epoch `number` of slots 0, 1 and 3, which goes back to epoch `from`. */
static void is_now(int number, int from, bool committed) {
    const struct membership e = {.number = number, .from = from, .n = 3, .slot = {0, 1, 3}};
    memory.of[number % OWN_EPOCHS] = e;
    memory.epoch = number;
    for (int i = 0; i < e.n; i++) memory.board[number % OWN_EPOCHS][e.slot[i]].committed = committed;
}
static void begin(void) {
    memset(&memory, 0, sizeof memory);
    r = RECONNECT_NOTHING;
    for (int s = 0; s < N; s++) there[s] = true;
    is_now(5, 4, true);
}
static enum membership_what at(double now_s) { return reconnect_look(&r, &view, now_s).what; }

TEST(test_an_epoch_of_the_same_ranks) {
    begin();
    assert_int_equal(at(10), MEMBERS_STAY);
    memory.line[1].lost = own_slot_word(5, 3);
    assert_int_equal(at(11), MEMBERS_STAY);                          /* slot 3 may have died */
    const struct membership_act act = reconnect_look(&r, &view, 11.2);
    assert_true(act.what == MEMBERS_CHANGE && act.slot == -1 && act.next.number == 6 && act.next.from == 5);
    assert_true(act.next.n == 3 && act.next.slot[2] == 3);
    is_now(5, 4, false);                                             /* epoch 5 is not committed */
    assert_int_equal(reconnect_look(&r, &view, 11.3).next.from, 4);
}

TEST(test_who_has_died_is_not_lost) {
    begin();
    memory.line[1].lost = own_slot_word(5, 3);
    assert_int_equal(at(11), MEMBERS_STAY);
    there[3] = false;
    assert_int_equal(at(11.2), MEMBERS_STAY);
    there[3] = true;
    assert_int_equal(at(12), MEMBERS_STAY);                          /* the wait begins again */
    assert_int_equal(at(12.2), MEMBERS_CHANGE);
}

TEST(test_what_does_not_count) {
    begin();
    memory.line[1].lost = own_slot_word(4, 3);                       /* a loss in another epoch */
    memory.line[2].lost = own_slot_word(5, 0);                       /* a spare has lost a rank */
    memory.line[3].lost = own_slot_word(5, 2);                       /* a rank has lost a spare */
    assert_int_equal(at(11), MEMBERS_STAY);
    assert_int_equal(at(12), MEMBERS_STAY);
    memory.line[1].lost = own_slot_word(5, 3);
    assert_int_equal(at(13), MEMBERS_STAY);
    memory.line[0].lost = own_slot_word(5, 3);                       /* for another pair the wait begins again */
    assert_int_equal(at(13.2), MEMBERS_STAY);
    assert_int_equal(at(13.4), MEMBERS_CHANGE);
}

/* The epoch that was opened after a loss loses a connection, too, before it is committed. The greater slot is killed,
 * once. */
TEST(test_who_cannot_be_reached_is_killed) {
    begin();
    memory.line[3].lost = own_slot_word(5, 1);
    assert_int_equal(at(11), MEMBERS_STAY);
    const struct membership now = own_membership_now(&memory);
    const struct membership_act act = reconnect_look(&r, &view, 11.2);
    test_stderr_keep();
    reconnect_is_open(&r, &now, &act);
    is_now(6, 5, false);
    assert_int_equal(at(12), MEMBERS_STAY);
    memory.line[1].lost = own_slot_word(6, 3);
    assert_int_equal(at(13), MEMBERS_STAY);
    const struct membership_act end = reconnect_look(&r, &view, 13.2);
    const char *text = test_stderr_text();
    assert_non_null(strstr(text, "ranks 2 and 1 have lost each other; epoch 6 goes on with 3 ranks"));
    assert_non_null(strstr(text, "rank 2 cannot be reached by rank 1, and is killed"));
    assert_true(end.what == MEMBERS_END && end.slot == 3);
    assert_int_equal(at(14), MEMBERS_STAY);
    assert_int_equal(at(15), MEMBERS_STAY);                          /* no act until the death is seen */
    is_now(6, 5, true);
    memory.line[0].lost = own_slot_word(6, 1);
    assert_int_equal(at(16), MEMBERS_STAY);
    assert_int_equal(at(17), MEMBERS_CHANGE);                        /* a committed epoch had this connection */
}

TESTS(unit_test(test_an_epoch_of_the_same_ranks), unit_test(test_who_has_died_is_not_lost),
      unit_test(test_what_does_not_count), unit_test(test_who_cannot_be_reached_is_killed))
