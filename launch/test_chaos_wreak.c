/* ranks: 1  device: cpu */
/* Chaos on a job that is only a memory, without processes. The wreak_hand records its calls. */
#include "launch/chaos_wreak.h"
#include "tests/test.h"

#include <math.h>
#include <signal.h>
#include <string.h>

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

TESTS(unit_test(test_who_is_slowed_goes_on), unit_test(test_who_was_slowed_rests),
      unit_test(test_who_is_to_die_is_not_counted_on), unit_test(test_when_it_acts))
