/* ranks: 1  device: cpu
 *
 * The rule compared with its definition, then in every schedule: all orders in which up to three workers, of up to four
 * clocks each, can ask and push. The submission decides which worker continues, and the test checks each state. */
#include "dp_variants/server/server.h"
#include "lessons/27-later/bound/bound.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, CLOCKS = 4, PHASES = 3, AGES = 16 };

static struct bound bound_of(int n, int64_t staleness, const int64_t *clocks, const int64_t *finished) {
    struct bound b = {.n_workers = n, .staleness = staleness};
    for (int w = 0; w < n; w++) b.clocks[w] = clocks[w], b.finished[w] = finished[w];
    return b;
}

/* ---- one state ---- */
TEST(test_bound_slowest_is_the_last_of_those_that_go_on) {
    static const struct { int64_t clocks[3], finished[3], slowest; } cases[] = {
        {{9, 9, 9}, {4, 2, 7}, 2}, {{9, 9, 9}, {4, 0, 7}, 0}, {{9, 2, 9}, {4, 2, 7}, 4}, {{2, 3, 9}, {2, 3, 7}, 7},
        {{2, 2, 2}, {2, 2, 1}, 1}, {{2, 3, 4}, {2, 3, 4}, INT64_MAX}, {{1, 1, 1}, {0, 0, 0}, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct bound b = bound_of(3, 1, cases[k].clocks, cases[k].finished);
        int64_t slowest = bound_slowest(&b);
        if (slowest != cases[k].slowest)
            fail_msg("finished %d, %d, %d of %d, %d, %d clocks: the slowest is at %lld, and you say %lld",
                     (int)b.finished[0], (int)b.finished[1], (int)b.finished[2], (int)b.clocks[0], (int)b.clocks[1],
                     (int)b.clocks[2], (long long)cases[k].slowest, (long long)slowest);
    }
}

/* The other workers have finished 5 of many clocks. The project's own rule must agree. */
TEST(test_bound_allows_up_to_the_staleness) {
    static const int64_t bounds[] = {0, 1, 3, INT64_MAX};
    for (int s = 0; s < 4; s++)
        for (int64_t t = 5; t < 12; t++) {
            struct bound b = bound_of(3, bounds[s], (int64_t[]){20, 20, 20}, (int64_t[]){t, 5, 9});
            bool right = t - 5 <= bounds[s];
            if (bound_allows(&b, 0) != right)
                fail_msg("clock %d, the slowest has finished 5, staleness %lld: %s", (int)t, (long long)bounds[s],
                         right ? "it may go on" : "it has to wait");
            assert_true(right == server_allows(t, 5, bounds[s]));
        }
}

TEST(test_bound_refuses_a_push_that_came_twice) {
    struct bound b = bound_of(2, 1, (int64_t[]){9, 9}, (int64_t[]){3, 3}), before;
    bool go[BOUND_MOST];
    b.waits[1] = true;
    before = b;
    assert_fails(bound_pushed(&b, 0, 2, go), E_INTERNAL, "worker 0");
    assert_memory_equal(&b, &before, sizeof b);
    assert_fails(bound_pushed(&b, 0, 4, go), E_INTERNAL, "worker 0");
    assert_memory_equal(&b, &before, sizeof b);
    assert_ok(bound_pushed(&b, 0, 3, go));
    assert_int_equal(b.finished[0], 4);
}

/* ---- every schedule ---- */
/* The true state, independent of the submission's counts. age: updates by others since worker w got its weights. */
enum phase { IDLE, WAITS, HAS };
struct world { struct bound b; enum phase phase[WORKERS]; int age[WORKERS]; };
enum broken { TOO_FAR, STUCK, NEEDLESS, MISCOUNTED, N_BROKEN };
struct search {
    bool with_ages;
    unsigned char *seen;
    enum status status;
    int oldest;                     /* the largest age of an applied gradient */
    bool broken[N_BROKEN];
    char said[N_BROKEN][256];
};

static bool left(const struct world *x, int w) { return x->b.finished[w] == x->b.clocks[w]; }

/* The definition: no worker that has not left is more than `staleness` clocks behind w. */
static bool may(const struct world *x, int w) {
    for (int v = 0; v < x->b.n_workers; v++)
        if (!left(x, v) && x->b.finished[w] - x->b.finished[v] > x->b.staleness) return false;
    return true;
}

static void found(struct search *s, enum broken broken, const struct world *x, const char *event, int w, int v) {
    if (s->broken[broken]) return;
    const char *name = x->b.staleness == INT64_MAX ? "no bound" : (const char *[]){"0", "1", "2"}[x->b.staleness];
    int at = snprintf(s->said[broken], sizeof s->said[broken], "staleness: %s; ", name);
    if (event) at += snprintf(s->said[broken] + at, sizeof s->said[broken] - (size_t)at, "worker %d %s: ", w, event);
    for (int i = 0; i < x->b.n_workers; i++)
        at += snprintf(s->said[broken] + at, sizeof s->said[broken] - (size_t)at, "%s%d of %d clocks%s", i ? ", " : "",
                       (int)x->b.finished[i], (int)x->b.clocks[i],
                       left(x, i) ? " (left)" : x->phase[i] == WAITS ? " (waits)" : "");
    static const char *const why[] = {"is let go, too far ahead", "waits forever", "waits, and need not",
                                      "is counted wrongly, or was let go without asking"};
    snprintf(s->said[broken] + at, sizeof s->said[broken] - (size_t)at, "; worker %d %s", v, why[broken]);
    s->broken[broken] = true;
}

static bool new_state(struct search *s, const struct world *x) {
    size_t key = 0;
    for (int w = 0; w < x->b.n_workers; w++)
        key = ((key * (CLOCKS + 1) + (size_t)x->b.finished[w]) * PHASES + (size_t)x->phase[w]) * AGES +
              (size_t)(s->with_ages ? x->age[w] : 0);
    bool is_new = !(s->seen[key / 8] >> key % 8 & 1);
    s->seen[key / 8] |= (unsigned char)(1 << key % 8);
    return is_new;
}

static void look(struct search *, const struct world *);

/* Continue the search. x: the state after the event, before any worker gets weights. */
static void go_on(struct search *s, struct world x, const struct bound *told, const bool *go, const char *event,
                  int w) {
    bool was_waiting[WORKERS];
    for (int v = 0; v < x.b.n_workers; v++) was_waiting[v] = x.phase[v] == WAITS;
    for (int v = 0; v < x.b.n_workers; v++) {
        bool allowed = was_waiting[v] && may(&x, v);
        if (go[v] && !was_waiting[v]) found(s, MISCOUNTED, &x, event, w, v);
        else if (go[v] && !allowed) found(s, TOO_FAR, &x, event, w, v);
        else if (!go[v] && allowed) found(s, NEEDLESS, &x, event, w, v);
        if (told->finished[v] != x.b.finished[v] || told->waits[v] != (was_waiting[v] && !go[v]))
            found(s, MISCOUNTED, &x, event, w, v);
    }
    for (int v = 0; v < x.b.n_workers; v++)
        if (go[v] && was_waiting[v]) x.phase[v] = HAS, x.age[v] = 0;
    look(s, &x);
}

static struct bound tell(const struct world *x) {
    struct bound b = x->b;
    for (int v = 0; v < b.n_workers; v++) b.waits[v] = x->phase[v] == WAITS;
    return b;
}

static void ask(struct search *s, struct world x, int w) {
    struct bound told = tell(&x);
    bool go[BOUND_MOST] = {true, true, true, true, true, true, true, true};
    if (s->status == OK) s->status = bound_asked(&told, w, go);
    if (s->status != OK) return;
    x.phase[w] = WAITS;
    go_on(s, x, &told, go, "asks", w);
}

static void push(struct search *s, struct world x, int w) {
    struct bound told = tell(&x);
    bool go[BOUND_MOST] = {true, true, true, true, true, true, true, true};
    if (s->status == OK) s->status = bound_pushed(&told, w, x.b.finished[w], go);
    if (s->status != OK) return;
    if (x.age[w] > s->oldest) s->oldest = x.age[w];
    x.b.finished[w]++;
    x.phase[w] = IDLE, x.age[w] = 0;
    for (int v = 0; v < x.b.n_workers; v++)
        if (v != w && x.phase[v] == HAS && x.age[v] < AGES - 1) x.age[v]++;
    go_on(s, x, &told, go, "pushes", w);
}

static void look(struct search *s, const struct world *x) {
    bool moved = false, all_left = true;
    if (s->status != OK || !new_state(s, x)) return;
    for (int w = 0; w < x->b.n_workers; w++) {
        all_left &= left(x, w);
        if (x->phase[w] == HAS) push(s, *x, w), moved = true;
        if (x->phase[w] == IDLE && !left(x, w)) ask(s, *x, w), moved = true;
    }
    for (int w = 0; w < x->b.n_workers && !moved && !all_left; w++)
        if (!left(x, w)) found(s, STUCK, x, NULL, w, w);
}

static void explore(struct search *s, int n, int64_t staleness, const int64_t *clocks, bool with_ages) {
    static const int64_t none[WORKERS] = {0};
    struct world x = {.b = bound_of(n, staleness, clocks, none)};
    size_t per_worker = (CLOCKS + 1) * PHASES * AGES, keys = 1;
    for (int w = 0; w < n; w++) keys *= per_worker;
    s->with_ages = with_ages;
    s->seen = calloc(keys / 8 + 1, 1);
    look(s, &x);
    free(s->seen);
}

/* One, two and three workers, every combination of up to three clocks, staleness 0 to 2 and no bound. */
static struct search everything(void) {
    static const int64_t bounds[] = {0, 1, 2, INT64_MAX};
    struct search s = {.status = OK};
    for (int n = 1; n <= WORKERS; n++)
        for (int b = 0; b < 4; b++)
            for (int k = 0; k < 27; k++)
                if (n == WORKERS || k / 9 == 0)
                    explore(&s, n, bounds[b], (int64_t[]){1 + k % 3, 1 + k / 3 % 3, 1 + k / 9}, false);
    return s;
}

static void hold(enum broken broken) {
    struct search s = everything();
    assert_ok(s.status);
    if (s.broken[broken]) fail_msg("%s", s.said[broken]);
}
static void test_bound_nobody_is_too_far_ahead(void **state) { (void)state, hold(TOO_FAR); }
static void test_bound_all_come_to_their_end(void **state) { (void)state, hold(STUCK); }
static void test_bound_nobody_waits_without_need(void **state) { (void)state, hold(NEEDLESS); }
static void test_bound_counts_what_happened(void **state) { (void)state, hold(MISCOUNTED); }

/* The oldest gradient of all schedules has exactly the formula's age. */
TEST(test_bound_of_a_gradients_age) {
    static const struct { int n; int64_t staleness; } cases[] = {{1, 0}, {1, 2}, {2, 0}, {2, 1}, {3, 0}, {3, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct search s = {.status = OK};
        explore(&s, cases[k].n, cases[k].staleness, (int64_t[]){CLOCKS, CLOCKS, CLOCKS}, true);
        assert_ok(s.status);
        int64_t said = bound_most_stale(cases[k].n, cases[k].staleness);
        if (said != s.oldest)
            fail_msg("%d workers, staleness %d: the oldest gradient of all schedules is %d updates old, and you say "
                     "%lld", cases[k].n, (int)cases[k].staleness, s.oldest, (long long)said);
    }
    assert_int_equal(bound_most_stale(8, 3), 49);
    assert_true(bound_most_stale(1, INT64_MAX) == 0 && bound_most_stale(2, INT64_MAX) == INT64_MAX);
}

TESTS(unit_test(test_bound_slowest_is_the_last_of_those_that_go_on), unit_test(test_bound_allows_up_to_the_staleness),
      unit_test(test_bound_refuses_a_push_that_came_twice), unit_test(test_bound_nobody_is_too_far_ahead),
      unit_test(test_bound_all_come_to_their_end), unit_test(test_bound_nobody_waits_without_need),
      unit_test(test_bound_counts_what_happened), unit_test(test_bound_of_a_gradients_age))
