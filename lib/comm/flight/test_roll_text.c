/* ranks: 1  device: cpu */
/* The sentence of a roll call, from entries that this test makes. */
#include "tests/test.h"

#include "lib/comm/flight/comm_roll.h"

#include <string.h>

static const struct mail_state in_dp = {1, COMM_ALL_REDUCE, 2, 1, -1, 12, "dp"};   /* leader 1 */
static const struct mail_state in_pp = {1, COMM_RECV, 4, 0, 3, 4, "pp"};           /* from rank 3 */

TEST(test_silent_members_come_first) {
    struct roll_entry entry[6] = {
        {.answered = true, .state = in_pp}, {.member = true}, {.answered = false}, {.member = true},
        {.answered = false}, {.answered = true}};
    char text[512];
    roll_text(text, sizeof text, entry, 6, 1, &in_dp);
    assert_string_equal(text,
                        "no answer from rank 3, 2, 4 (stopped, dead or computing); rank 0 waits in recv #4 of group "
                        "pp (4 ranks) from rank 3; rank 5 is computing");
}

TEST(test_who_waits_in_the_same_is_not_listed) {
    struct mail_state later = in_dp, other_dp = in_dp;
    later.sequence = 13;
    other_dp.leader = 0; /* another group of the same name */
    struct roll_entry entry[4] = {{.answered = true, .state = in_dp, .member = true}, {.member = true},
                                  {.answered = true, .state = in_dp}, {.answered = true, .state = in_dp}};
    char text[512];
    roll_text(text, sizeof text, entry, 4, 1, &in_dp);
    assert_string_equal(text, "every other rank answered that it waits in it too");
    entry[2].state = later;
    entry[3].state = other_dp;
    roll_text(text, sizeof text, entry, 4, 1, &in_dp);
    assert_string_equal(text, "rank 2 waits in all_reduce #13 of group dp (2 ranks); rank 3 waits in all_reduce #12 of "
                              "group dp (2 ranks)");
}

TEST(test_many_ranks_stay_one_short_line) {
    static struct roll_entry entry[1000];
    for (int r = 500; r < 1000; r++) entry[r].answered = true;
    char text[512], small[20];
    roll_text(text, sizeof text, entry, 1000, 0, &in_dp);
    assert_non_null(strstr(text, "no answer from rank 1, 2, 3, 4, 5, 6 and 493 more (stopped"));
    assert_non_null(strstr(text, "; 494 more ranks are elsewhere"));
    roll_text(small, sizeof small, entry, 1000, 0, &in_dp);
    assert_string_equal(small, "no answer from rank");
}

TESTS(unit_test(test_silent_members_come_first), unit_test(test_who_waits_in_the_same_is_not_listed),
      unit_test(test_many_ranks_stay_one_short_line))
