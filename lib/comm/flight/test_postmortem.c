/* ranks: 1  device: cpu */
/* Postmortems of rings that this test makes, with planted faults that the postmortem must find. */
#include "lib/comm/comm.h"
#include "lib/comm/flight/comm_roll.h"
#include "lib/comm/flight/postmortem.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, DP = 71, TP = 72 };     /* hashes */
static const int64_t second = 1000000000;

/* Four ranks, all in group dp; 0 1 and 2 3 are two groups tp (TP, TP + 1). The clock is at 100 s. */
static struct flight_set rings(void) {
    struct flight_set set = {N, N, calloc(N, sizeof(struct flight *)), 100 * second, false, "job"};
    for (int r = 0; r < N; r++) {
        struct flight *f = set.ring[r] = flight_blank();
        assert_non_null(f);
        f->rank = r, f->size = N, f->n_groups = 2, f->n_rows = FLIGHT_ROWS;
        f->seen_ns = set.now_ns - second / 100;
        f->group[0] = (struct flight_group){"dp", DP, N, r, 0, 1, 1, 0};
        f->group[1] = (struct flight_group){"tp", (uint32_t)(TP + r / 2), 2, r % 2, r / 2 * 2, 1, 1, 0};
    }
    return set;
}

/* Rank r calls, at a time in seconds. @return its row */
static struct flight_row *call(struct flight_set *set, int r, int group, enum comm_op op, int64_t count, double at_s) {
    struct flight *f = set->ring[r];
    int64_t number = ++f->written;
    struct flight_row *row = &f->row[number % FLIGHT_ROWS];
    bool message = op == COMM_SEND || op == COMM_RECV;
    *row = (struct flight_row){.number = number, .called_ns = (int64_t)(at_s * 1e9), .count = count, .peer = -1,
                               .group = f->group[group].hash, .op = (uint8_t)op, .dtype = FP32, .state = FLIGHT_DONE,
                               .sequence = message ? 0 : f->group[group].called++, .step = 7};
    return row;
}
static void all_call(struct flight_set *set, int n, double at_s) {
    for (int i = 0; i < n; i++)
        for (int r = 0; r < N; r++) call(set, r, 0, COMM_ALL_REDUCE, 100 + i, at_s + i);
}
/* Rank r waits in its last call. */
static struct flight_row *waits(struct flight_set *set, int r, double since_s) {
    struct flight *f = set->ring[r];
    struct flight_row *row = &f->row[f->written % FLIGHT_ROWS];
    f->wait_row = f->written;
    f->wait_since_ns = (int64_t)(since_s * 1e9);
    row->state = FLIGHT_STARTED;
    return row;
}
static void silent(struct flight_set *set, int r, double since_s) { set->ring[r]->seen_ns = (int64_t)(since_s * 1e9); }

/* Check the kind, the rank and the sentence of the verdict. */
static void assert_verdict(struct flight_set *set, enum postmortem_kind kind, int rank, const char *sentence) {
    struct postmortem p;
    char text[1536];
    assert_ok(postmortem_find(set, &p));
    postmortem_text(set, &p, text, sizeof text);
    assert_string_equal(text, sentence);
    assert_int_equal(p.kind, kind);
    assert_int_equal(p.rank, rank);
    postmortem_fini(&p);
    flight_set_fini(set);
}

TEST(test_nothing_is_wrong) {
    struct flight_set set = rings();
    all_call(&set, 3, 90);
    assert_verdict(&set, POSTMORTEM_NONE, -1, "no rank waits for another");
}

TEST(test_missing_call) {
    struct flight_set set = rings();
    all_call(&set, 3, 90);
    for (int r = 0; r < N; r++)
        if (r != 2) call(&set, r, 0, COMM_ALL_GATHER, 50, 96), waits(&set, r, 96 + 0.5 * r);
    assert_verdict(&set, POSTMORTEM_MISSING, 2,
                   "rank 2 has not called all_gather of 50 fp32, #3 of dp (4 ranks), step 7, in which 3 ranks have "
                   "waited for 4.0 s; it is 1 behind; it called last all_reduce of 102 fp32, #2 of dp (4 ranks), step "
                   "7 (done)");
}

/* Rank 0 waits for 1 in tp. Ranks 1 and 2 wait in dp for rank 3, which is silent. */
TEST(test_late_rank_at_the_end_of_a_chain) {
    struct flight_set set = rings();
    all_call(&set, 2, 90);
    call(&set, 0, 1, COMM_ALL_REDUCE, 9, 93), waits(&set, 0, 93);
    call(&set, 1, 0, COMM_ALL_REDUCE, 200, 93), waits(&set, 1, 93.5);
    call(&set, 2, 1, COMM_ALL_REDUCE, 9, 93), waits(&set, 2, 93.5);
    silent(&set, 3, 92);
    assert_verdict(&set, POSTMORTEM_MISSING, 3,
                   "rank 3 has not called all_reduce of 200 fp32, #2 of dp (4 ranks), step 7, in which 1 rank has "
                   "waited for 6.5 s; it is 1 behind; last sign of life 8.0 s ago; it called last all_reduce of 101 "
                   "fp32, #1 of dp (4 ranks), step 7 (done)");
}

TEST(test_swapped_calls) {
    struct flight_set set = rings();
    all_call(&set, 2, 90);
    for (int r = 0; r < N; r++) {
        call(&set, r, 0, r == 1 ? COMM_ALL_GATHER : COMM_ALL_REDUCE, r == 1 ? 5 : 8, 95);
        call(&set, r, 0, r == 1 ? COMM_ALL_REDUCE : COMM_ALL_GATHER, r == 1 ? 8 : 5, 95);
        waits(&set, r, 95);
    }
    assert_verdict(&set, POSTMORTEM_MISMATCH, 1,
                   "rank 1 calls all_gather of 5 fp32 as #2 of dp (4 ranks), step 7, where rank 0 calls all_reduce of "
                   "8 fp32: they are swapped with the next");
}

/* The blame is right even if the first rank differs. The earliest mismatch counts, not the first in the list. */
TEST(test_left_out_call) {
    struct flight_set set = rings();
    all_call(&set, 1, 90);
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < N; r++)
            if (r || i) call(&set, r, 0, COMM_ALL_REDUCE, 10 + i, 95 + i);
    call(&set, 2, 1, COMM_ALL_REDUCE, 3, 99), call(&set, 3, 1, COMM_ALL_REDUCE, 4, 99);
    assert_verdict(&set, POSTMORTEM_MISMATCH, 0,
                   "rank 0 calls all_reduce of 11 fp32 as #1 of dp (4 ranks), step 7, where rank 1 calls all_reduce of "
                   "10 fp32, and that next: rank 0 left one out");
}

TEST(test_another_count_type_or_reduction) {
    for (int what = 0; what < 3; what++) {
        struct flight_set set = rings();
        for (int r = 0; r < N; r++) {
            struct flight_row *row = call(&set, r, 0, COMM_ALL_REDUCE, what == 0 && r == 3 ? 7 : 8, 95);
            if (what == 1 && r == 3) row->dtype = BF16;
            if (what == 2 && r == 3) row->reduction = COMM_MAX;
        }
        static const char *const call_of[] = {"all_reduce of 7 fp32", "all_reduce of 8 bf16",
                                              "all_reduce (max) of 8 fp32"};
        char text[256];
        snprintf(text, sizeof text, "rank 3 calls %s as #0 of dp (4 ranks), step 7, where rank 0 calls all_reduce of 8 "
                 "fp32", call_of[what]);
        assert_verdict(&set, POSTMORTEM_MISMATCH, 3, text);
    }
}

/* Rank 0 waits for rank 1 in tp, in this step; rank 1 waits in dp for all. */
static struct flight_set circle(int step) {
    struct flight_set set = rings();
    call(&set, 0, 1, COMM_ALL_REDUCE, 9, 93)->step = step, waits(&set, 0, 93);
    for (int r = 1; r < N; r++) call(&set, r, 0, COMM_BARRIER, 0, 94), waits(&set, r, 94);
    return set;
}

TEST(test_circle) {
    struct flight_set set = circle(7);
    assert_verdict(&set, POSTMORTEM_CIRCLE, 0,
                   "ranks wait for each other in a circle in one step, so their order differs, or a call is left out: "
                   "rank 0 waits in all_reduce of 9 fp32, #0 of tp (2 ranks), step 7, for 7.0 s, for rank 1; rank 1 "
                   "waits in barrier, #0 of dp (4 ranks), step 7, for 6.0 s, for rank 0");
}

TEST(test_circle_over_two_steps) {
    struct flight_set set = circle(8);
    assert_verdict(&set, POSTMORTEM_CIRCLE, 0,
                   "ranks wait for each other in a circle in different steps, so one has left its step early: rank 0 "
                   "waits in all_reduce of 9 fp32, #0 of tp (2 ranks), step 8, for 7.0 s, for rank 1; rank 1 waits in "
                   "barrier, #0 of dp (4 ranks), step 7, for 6.0 s, for rank 0");
}

/* Rank 0 sends to rank 1, which waits in dp for all; a circle of which only one call is a message. */
TEST(test_circle_with_a_message) {
    struct flight_set set = rings();
    struct flight_row *row = call(&set, 0, 1, COMM_SEND, 5, 93);
    row->peer = 1, row->tag = 2;
    waits(&set, 0, 93);
    for (int r = 1; r < N; r++) call(&set, r, 0, COMM_BARRIER, 0, 94), waits(&set, r, 94);
    assert_verdict(&set, POSTMORTEM_CIRCLE, 0,
                   "ranks wait for each other in a circle with a message in it, so a send or a receive is missing, or "
                   "late: rank 0 waits in send of 5 fp32 to rank 1 with tag 2, #0 of tp (2 ranks), step 7, for 7.0 s, "
                   "for rank 1; rank 1 waits in barrier, #0 of dp (4 ranks), step 7, for 6.0 s, for rank 0");
}

TEST(test_stuck_within) {
    for (int quiet = 0; quiet < 2; quiet++) {
        struct flight_set set = rings();
        for (int r = 0; r < N; r++) {
            call(&set, r, 0, COMM_ALL_REDUCE, 8, 95);
            struct flight_row *row = waits(&set, r, 95);
            row->hops = 6, row->hop = r == 2 ? 1 : 4;
        }
        if (quiet) silent(&set, 1, 95); /* silence counts more than the number of hops */
        assert_verdict(&set, POSTMORTEM_STUCK, quiet ? 1 : 2,
                       quiet ? "rank 1 gets no further in all_reduce of 8 fp32, #0 of dp (4 ranks), step 7, at hop 4 "
                               "of 6, in which 3 ranks have waited for 5.0 s; last sign of life 5.0 s ago"
                             : "rank 2 gets no further in all_reduce of 8 fp32, #0 of dp (4 ranks), step 7, at hop 1 "
                               "of 6, in which 3 ranks have waited for 5.0 s");
    }
}

TEST(test_message_that_nobody_sends) {
    struct flight_set set = rings();
    all_call(&set, 1, 90);
    struct flight_row *row = call(&set, 3, 0, COMM_RECV, 5, 95);
    row->peer = 1, row->tag = 2;
    waits(&set, 3, 95);
    assert_verdict(&set, POSTMORTEM_MISSING, 1,
                   "rank 1 is waited for in recv of 5 fp32 from rank 1 with tag 2, #0 of dp (4 ranks), step 7, in "
                   "which 1 rank has waited for 5.0 s; it called last all_reduce of 100 fp32, #0 of dp (4 ranks), "
                   "step 7 (done)");
}

/* A rank without a ring is counted, and not blamed. */
TEST(test_without_a_record) {
    struct flight_set set = rings();
    for (int r = 0; r < 3; r++) call(&set, r, 0, COMM_BARRIER, 0, 94), waits(&set, r, 94);
    free(set.ring[3]);
    set.ring[3] = NULL;
    set.n_found = 3;
    assert_verdict(&set, POSTMORTEM_STUCK, -1,
                   "all have called it, and it does not end: rank 0 waits in barrier, #0 of dp (4 ranks), step 7, for "
                   "6.0 s; 1 of 4 ranks have no record here");
}

/* A rank's distance behind the others is known even if the rows are overwritten. */
TEST(test_behind_beyond_the_ring) {
    struct flight_set set = rings();
    struct postmortem p;
    char text[512];
    for (int i = 0; i < FLIGHT_ROWS + 100; i++)
        for (int r = 0; r < 3; r++) call(&set, r, 0, COMM_BARRIER, 0, 1 + 0.01 * i);
    assert_ok(postmortem_find(&set, &p));
    assert_int_equal(p.of[3].behind, FLIGHT_ROWS + 100);
    postmortem_rank_text(&set, &p, 3, text, sizeof text);
    assert_string_equal(text, "has called nothing; 4196 behind");
    postmortem_rank_text(&set, &p, 1, text, sizeof text);
    assert_string_equal(text, "called last barrier, #4195 of dp (4 ranks), step 7 (done); 100 rows dropped");
    postmortem_fini(&p);
    flight_set_fini(&set);
}

/* Rank 1 is stopped at 93 s, and continues at 99 s when its job is killed. A cut at 97 s shows that it is late. */
TEST(test_cut_takes_back_what_came_later) {
    struct flight_set set = rings();
    all_call(&set, 2, 90);
    for (int r = 0; r < N; r++) call(&set, r, 0, COMM_BARRIER, 0, r == 1 ? 99 : 94);
    for (int r = 0; r < N; r++)
        if (r != 1) waits(&set, r, 94);
    struct flight *f = set.ring[1];
    f->gap_from_ns = 93 * second, f->gap_to_ns = 99 * second;
    f->row[2].done_ns = 98 * second;
    set.now_ns = 97 * second;
    for (int r = 0; r < N; r++) flight_cut(set.ring[r], set.now_ns);
    assert_int_equal(f->row[2].state, FLIGHT_STARTED);
    assert_int_equal(f->row[1].state, FLIGHT_DONE);
    assert_verdict(&set, POSTMORTEM_MISSING, 1,
                   "rank 1 has not called barrier, #2 of dp (4 ranks), step 7, in which 3 ranks have waited for 3.0 s; "
                   "it is 1 behind; last sign of life 4.0 s ago; it called last all_reduce of 101 fp32, #1 of dp (4 "
                   "ranks), step 7 (under way)");
}

/* The sentence of a roll call, from entries that this test makes. */

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

TESTS(unit_test(test_nothing_is_wrong), unit_test(test_missing_call), unit_test(test_late_rank_at_the_end_of_a_chain),
      unit_test(test_swapped_calls), unit_test(test_left_out_call), unit_test(test_another_count_type_or_reduction),
      unit_test(test_circle), unit_test(test_circle_over_two_steps), unit_test(test_circle_with_a_message),
      unit_test(test_stuck_within), unit_test(test_message_that_nobody_sends), unit_test(test_without_a_record),
      unit_test(test_behind_beyond_the_ring), unit_test(test_cut_takes_back_what_came_later),
      unit_test(test_silent_members_come_first), unit_test(test_who_waits_in_the_same_is_not_listed),
      unit_test(test_many_ranks_stay_one_short_line))
