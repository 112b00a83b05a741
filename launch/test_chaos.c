/* ranks: 1  device: cpu */
/* The acts of chaos, the acts it never chooses, and the costs it prints. */
#include "launch/chaos.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static struct chaos_job job_of(int n, int n_slots, int least, const bool *alive) {
    struct chaos_job job = {{.number = 3, .from = 2, .n = n}, true, alive, n_slots, least,
                            {1, 1, 0, 0, 0, {0}}, NULL};
    for (int i = 0; i < n; i++) job.now.slot[i] = i;
    return job;
}

TEST(test_an_act_is_a_function_of_seed_and_number) {
    const bool alive[] = {true, true, true, false, true, true};
    const struct chaos_job job = job_of(4, 6, 2, alive);
    int kinds[N_CHAOS_KINDS] = {0}, two = 0, hit[6] = {0};
    double sum_s = 0;
    enum { N = 4000 };
    for (int k = 0; k < N; k++) {
        struct chaos_act a = chaos_act(7, k, 0.5, 1, &job), again = chaos_act(7, k, 0.5, 1, &job);
        assert_true(a.kind == again.kind && a.slot[0] == again.slot[0] && a.seconds == again.seconds);
        kinds[a.kind]++;
        two += a.n == 2;
        sum_s += a.seconds;
        assert_true(a.seconds >= 0 && a.slow_s >= 0 && a.slow_s < 1);
        for (int i = 0; i < a.n; i++) hit[a.slot[i]]++;
        assert_true(a.n == 1 || a.slot[0] != a.slot[1]);
    }
    assert_close(sum_s / N, 0.5, 0.03);
    assert_close(kinds[CHAOS_KILL] / (double)N, 11. / 20, 0.03);
    assert_close(kinds[CHAOS_STOP] / (double)N, 5. / 20, 0.03);
    assert_close(two / (double)kinds[CHAOS_KILL], 0.25, 0.05);
    assert_int_equal(hit[3], 0);                                     /* slot 3 is dead already */
    for (int s = 0; s < 6; s++) assert_true(s == 3 || hit[s] > N / 10);
    int same = 0;
    for (int k = 0; k < 100; k++) same += chaos_act(7, k, 1, 1, &job).slot[0] == chaos_act(8, k, 1, 1, &job).slot[0];
    assert_true(same < 50);
}

TEST(test_enough_are_always_left) {
    bool alive[] = {true, true, true, true};
    struct chaos_job job = job_of(4, 4, 3, alive);
    int kills = 0;
    for (int k = 0; k < 1000; k++) {
        struct chaos_act a = chaos_act(3, k, 1, 1, &job);
        kills += a.kind == CHAOS_KILL;
        assert_int_equal(a.n, 1);                                    /* two deaths would leave two ranks of 3 */
    }
    assert_true(kills > 400);
    job.shape.n_inner = job.least = 2;                               /* tp 2: three ranks have one whole replica */
    alive[1] = false;
    for (int k = 0; k < 1000; k++) assert_int_equal(chaos_act(3, k, 1, 1, &job).n, 1);
    alive[1] = true;
    job.least = 4;
    for (int k = 0; k < 1000; k++) assert_int_equal(chaos_act(3, k, 1, 1, &job).kind, CHAOS_SLOW);
    job.least = 2;
    for (int k = 0; k < 1000; k++) assert_true(chaos_act(3, k, 1, 0, &job).kind != CHAOS_STOP);      /* no agent would
                                                                                                      * kill it */
    memset(alive, 0, sizeof alive);
    assert_int_equal(chaos_act(3, 0, 1, 1, &job).n, 0);
}

/* Slots 0 and 1 are on one host, 2 and 3 on another; 4 is a spare. */
TEST(test_what_is_cut) {
    const bool alive[] = {true, true, true, false, true};
    const int node[] = {0, 0, 1, 1, 0}, one[] = {0, 0, 0, 0, 0};
    struct chaos_job job = job_of(4, 5, 4, alive);
    enum { N = 2000 };
    int cuts = 0;
    job.node = node;
    for (int k = 0; k < N; k++) {
        struct chaos_act a = chaos_act(3, k, 1, 1, &job);
        if (a.kind != CHAOS_CUT) continue;
        cuts++;
        assert_true(a.n == 2 && node[a.slot[0]] != node[a.slot[1]]);
        assert_true(alive[a.slot[0]] && alive[a.slot[1]] && a.slot[0] < 4 && a.slot[1] < 4);
    }
    assert_close(cuts / (double)N, 0.2, 0.04);
    job.committed = false;
    for (int k = 0; k < N; k++) assert_true(chaos_act(3, k, 1, 1, &job).kind != CHAOS_CUT);
    job.committed = true;
    job.node = one;
    for (int k = 0; k < N; k++) assert_true(chaos_act(3, k, 1, 1, &job).kind != CHAOS_CUT);
}

TEST(test_what_it_cost) {
    struct chaos_costs c = {0};
    char text[512] = "";
    chaos_look(&c, 0, 0, 1);                                         /* no step is done yet */
    for (int s = 1; s <= 10; s++) chaos_look(&c, 0, s, 9 + s);
    chaos_look(&c, 0, 10, 19.5);                                     /* no new step */
    chaos_died(&c, 20);
    chaos_died(&c, 21);                                              /* a second death before the next step */
    chaos_look(&c, 2, 10, 22);                                       /* step 10 once more */
    chaos_look(&c, 2, 11, 23);
    chaos_died(&c, 24);
    chaos_look(&c, 3, 12, 25);
    c.acts[CHAOS_KILL] = 3;
    FILE *out = fmemopen(text, sizeof text, "w");
    chaos_print(&c, 5, 30, out);
    fclose(out);
    assert_int_equal(c.again, 1);
    assert_int_equal(c.n_recovered, 2);
    assert_int_equal(c.in_epoch, 1);
    assert_string_equal(text, "chaos 5: 3 killed, 0 stopped, 0 slowed, 0 cut; 2 new epochs with steps; 1 step "
                              "done again\n"
                              "chaos 5: to the next step 2.00 s at the median, 2.00 s at most; goodput 85.0%, "
                              "predicted 76.6%\n");
}

TESTS(unit_test(test_an_act_is_a_function_of_seed_and_number), unit_test(test_enough_are_always_left),
      unit_test(test_what_is_cut), unit_test(test_what_it_cost))
