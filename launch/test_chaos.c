/* ranks: 1  device: cpu */
/* The acts of chaos, the acts it never chooses, and the costs it prints. */
#include "launch/chaos.h"
#include "launch/chaos_wreak.h"
#include "tests/test.h"
#include <math.h>
#include <signal.h>
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

/* Chaos on a job that is only a memory, without processes. The wreak_hand records its calls. */

enum { N = 4 };
static struct own_memory memory;
static bool there[N];
static const int node[N] = {0, 0, 1, 1};
static int n_of[NSIG], n_cut;
static bool is_stopped[N], is_killed[N];
static double clock_now_s, went_on_s[N], least_rest_s;

static void hurt(void *of, int s, int number) {
    (void)of;
    assert_true(s >= 0 && s < N && there[s] && !is_killed[s]);
    if (number == SIGSTOP) assert_false(is_stopped[s]);
    if (number == SIGSTOP) least_rest_s = fmin(least_rest_s, clock_now_s - went_on_s[s]);
    if (number == SIGCONT) went_on_s[s] = clock_now_s;
    is_stopped[s] = number == SIGSTOP;
    is_killed[s] = number == SIGKILL;
    n_of[number]++;
}
static void cut(void *of, int s, int other) {
    (void)of;
    assert_true(node[s] != node[other]);
    n_cut++;
}
static const struct wreak_hand hand = {NULL, hurt, cut, node};

static void begin(void) {
    memset(&memory, 0, sizeof memory);
    memset(n_of, 0, sizeof n_of);
    memset(is_stopped, 0, sizeof is_stopped);
    memset(is_killed, 0, sizeof is_killed);
    n_cut = 0;
    memory.of[0] = (struct membership){.number = 0, .from = -1, .n = N, .slot = {0, 1, 2, 3}};
    least_rest_s = INFINITY;
    for (int s = 0; s < N; s++) {
        went_on_s[s] = -INFINITY;
        there[s] = true;
        memory.line[s].state = OWN_RUNNING;
        memory.board[0][s].committed = 1;
    }
}

/* Run from second `from` to `to`, with a step every hundredth of a second. */
static void go(struct wreak *w, int least, double from_s, double to_s) {
    const struct members view = {.memory = &memory, .n_slots = N, .n_at_first = N, .least = least, .there = there,
                                 .shape = {1, 1, 0, 0, N, {0}}};
    for (double now_s = from_s; now_s < to_s; now_s += 0.01) {
        clock_now_s = now_s;
        memory.done = own_done(0, (int64_t)(100 * now_s));
        wreak_chaos(w, &view, false, &hand, now_s);
    }
}

/* No rank may die: slowed ranks continue, and connections between hosts are cut. */
TEST(test_who_is_slowed_goes_on) {
    struct wreak w = {.seed = 7, .mean_s = 0.1};
    begin();
    go(&w, N, 1, 21);
    assert_true(n_of[SIGSTOP] > 20 && n_cut > 20 && n_of[SIGKILL] == 0);
    assert_in_range(n_of[SIGSTOP] - n_of[SIGCONT], 0, N);
    assert_true(w.costs.acts[CHAOS_SLOW] == n_of[SIGSTOP] && w.costs.acts[CHAOS_CUT] == n_cut);
}

/* A slowed rank that continues may have to wait for a core. If it is slowed again before it gets one, it does not move
 * for --hang-timeout and is killed, though no rank may be lost. */
TEST(test_who_was_slowed_rests) {
    struct wreak w = {.seed = 7, .mean_s = 0.05, .hang_s = 1.5};
    begin();
    go(&w, N, 1, 41);
    assert_true(n_of[SIGSTOP] > 40 && n_of[SIGKILL] == 0);
    assert_true(least_rest_s > 1.45 && least_rest_s < 2);
}

/* One rank may die. Until the agent sees its death, no other rank is killed or stopped for good. */
TEST(test_who_is_to_die_is_not_counted_on) {
    struct wreak w = {.seed = 7, .mean_s = 0.1, .hang_s = 1};
    begin();
    go(&w, N - 1, 1, 21);
    assert_int_equal(w.costs.acts[CHAOS_KILL] + w.costs.acts[CHAOS_STOP], 1);
    assert_true(w.costs.acts[CHAOS_SLOW] > 20);
}

/* There are no acts before the first step, after the last, or without a seed. */
TEST(test_when_it_acts) {
    const struct members view = {.memory = &memory, .n_slots = N, .n_at_first = N, .least = 1, .there = there};
    struct wreak w = {.seed = 7, .mean_s = 0.1}, none = {.mean_s = 0.1};
    begin();
    for (double now_s = 1; now_s < 9; now_s += 0.01) wreak_chaos(&w, &view, false, &hand, now_s);
    memory.done = own_done(0, 100);
    for (double now_s = 9; now_s < 18; now_s += 0.01) wreak_chaos(&w, &view, true, &hand, now_s);
    for (double now_s = 9; now_s < 18; now_s += 0.01) wreak_chaos(&none, &view, false, &hand, now_s);
    assert_true(w.n_acts == 0 && none.n_acts == 0 && w.costs.steps == 1);
}

TESTS(unit_test(test_an_act_is_a_function_of_seed_and_number), unit_test(test_enough_are_always_left),
      unit_test(test_what_is_cut), unit_test(test_what_it_cost), unit_test(test_who_is_slowed_goes_on),
      unit_test(test_who_was_slowed_rests), unit_test(test_who_is_to_die_is_not_counted_on),
      unit_test(test_when_it_acts))
