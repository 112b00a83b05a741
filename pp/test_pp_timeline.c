/* ranks: 1  device: cpu
 *
 * Schedules in simulated time: bubble and peak equal their closed forms, and small cases equal those computed by hand.
 * Times are integers, which doubles add exactly, so tests compare with ==. */
#include "pp/pp_schedule.h"
#include "pp/pp_timeline.h"
#include "pp/test_pp_picture.h"
#include "tests/test.h"
#include <limits.h>
#include <stdlib.h>

enum { MAX_P = 64, F = 12, B = 24 };   /* of a whole stage; 1 to 4 chunks divide them */

struct table { const struct pp_schedule *row; int p, v, m; struct schedule stage[MAX_P]; };

static void table_init(struct table *t, const struct pp_schedule *row, int p, int v, int m) {
    *t = (struct table){.row = row, .p = p, .v = v, .m = m};
    for (int i = 0; i < p; i++) pp_schedule_make(row, &(struct pp_shape){p, v, m, {0}, NULL}, i, &t->stage[i]);
}
static void table_fini(struct table *t) {
    for (int i = 0; i < t->p; i++) schedule_fini(&t->stage[i]);
}

static struct timeline run(const struct table *t, int depth, double forward, double backward, double transfer) {
    const struct pp_times times = {{[TAPE_F] = forward / t->v, [TAPE_B] = backward / t->v}, transfer};
    struct timeline line;
    assert_ok(pp_timeline_make(t->stage, t->p, depth, &times, &line));
    return line;
}

/* A failure must print its table. */
static void require(bool ok, const struct table *t, int stage, const char *what) {
    if (!ok)
        fail_drawn(t->row, t->p, t->v, t->m, "%s p=%d v=%d m=%d stage %d: %s", t->row->name, t->p, t->v, t->m, stage,
                   what);
}

/* ---- closed forms, written here independently of the module's ---- */
static int least(int a, int b) { return a < b ? a : b; }

static int peak_of(const struct table *t, int i) {
    if (t->row == &pp_gpipe) return t->m;
    if (t->v == 1) return least(t->p - i, t->m);
    return least(t->m * t->v, 2 * (t->p - i - 1) + (t->v - 1) * t->p + 1);
}

/* With one staging buffer: the depth that avoids deadlock costs no time either. */
static void check_table(const struct pp_schedule *row, int p, int v, int m) {
    struct table t;
    const struct pp_shape shape = {p, v, m, {0}, NULL};
    table_init(&t, row, p, v, m);
    struct timeline line = run(&t, 1, F, B, 0);
    double bubble = (double)(p - 1) * (F + B) / v;
    require(row->bubble(&shape, &(struct pp_work){F, B - 1, 1}) == bubble, &t, -1, "the bubble's closed form");
    require(line.makespan == m * (F + B) + bubble, &t, -1, "the makespan is not work and bubble");
    for (int i = 0; i < p; i++) {
        require(timeline_idle(&line, t.stage, i) == bubble, &t, i, "idles another time than (p-1)(F+B)/v");
        require(pp_peak_in_flight(&t.stage[i]) == peak_of(&t, i), &t, i, "another peak than its closed form");
        require(row->peak(&shape, i) == peak_of(&t, i), &t, i, "the peak's closed form");
    }
    timeline_fini(&line);
    table_fini(&t);
}

static const int SIZES[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };

TEST(test_gpipe_and_1f1b_are_their_closed_forms) {
    for (int k = 0; k < N_SIZES; k++)
        for (int p = SIZES[k], m = 1; m <= 4 * p; m += p > 8 ? p / 2 : 1) {
            check_table(&pp_gpipe, p, 1, m);
            check_table(&pp_1f1b, p, 1, m);
        }
}

TEST(test_interleaved_is_its_closed_form) {
    for (int k = 1; k < N_SIZES; k++)
        for (int p = SIZES[k], v = 1; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p) check_table(&pp_interleaved, p, v, m);
}

/* ---- computed by hand ---- */
static void assert_span(const struct table *t, const struct timeline *line, int stage, enum action_kind kind,
                        int microbatch, double start, double end) {
    for (int i = 0; i < t->stage[stage].n; i++) {
        const struct action *a = &t->stage[stage].actions[i];
        if (a->kind != kind || a->microbatch != microbatch) continue;
        assert_close(line->span[stage][i].start, start, 0);
        assert_close(line->span[stage][i].end, end, 0);
        return;
    }
    fail_msg("stage %d has no %s of microbatch %d", stage, action_name(kind), microbatch);
}

/* stage 0: F0 F1 . B0 B0 . B1 B1        stage 1: . F0 B0 B0 F1 B1 B1        (F = 1, B = 2; two microbatches) */
TEST(test_timeline_of_two_stages) {
    struct table t;
    table_init(&t, &pp_1f1b, 2, 1, 2);
    struct timeline line = run(&t, INT_MAX, 1, 2, 0);
    assert_span(&t, &line, 0, ACTION_F, 1, 1, 2);
    assert_span(&t, &line, 1, RECV_F, 0, 0, 1);
    assert_span(&t, &line, 1, ACTION_B, 0, 2, 4);
    assert_span(&t, &line, 1, ACTION_F, 1, 4, 5);
    assert_span(&t, &line, 0, RECV_B, 0, 2, 4);
    assert_span(&t, &line, 0, ACTION_B, 1, 7, 9);
    assert_close(line.makespan, 9, 0);
    timeline_fini(&line);
    table_fini(&t);
}

/* With one microbatch nothing overlaps, and the step waits for each of the 2 (p - 1) messages. */
TEST(test_messages_take_their_time) {
    struct table t;
    table_init(&t, &pp_1f1b, 5, 1, 1);
    struct timeline line = run(&t, 1, 1, 2, 10);
    assert_close(line.makespan, 5 * 3 + 8 * 10, 0);
    timeline_fini(&line);
    table_fini(&t);
}

/* ---- unequal stages, and times of messages ---- */
struct unequal { int forward[MAX_P], wire; };
static double time_of_unequal(const void *self, int stage, const struct action *a) {
    const struct unequal *u = self;
    return a->kind == ACTION_F ? u->forward[stage] : a->kind == ACTION_B ? 2 * u->forward[stage] : u->wire;
}
static double makespan_of(const struct table *t, const struct unequal *u) {
    struct timeline line;
    assert_ok(timeline_make(t->stage, t->p, INT_MAX, time_of_unequal, u, &line));
    double makespan = line.makespan;
    timeline_fini(&line);
    return makespan;
}

/* 1F1B with stage times S, backward twice as long as forward: T = m max S + (sum S - max S) if the last stage is the
 * longest. If another is, its early forwards may hide a part of the second term, but T is at least m max S. */
TEST(test_1f1b_of_unequal_stages_is_its_closed_form) {
    uint32_t seed = 1;
    for (int trial = 0; trial < 400; trial++) {
        struct table t;
        struct unequal u = {.wire = 0};
        int p = 2 + trial % 7, m = 1 + trial % 23, most = 0, sum = 0;
        if (m < p) m += p;
        for (int i = 0; i < p; i++) {
            seed = seed * 1664525 + 1013904223;
            u.forward[i] = 1 + (int)(seed >> 16) % 50;
            sum += 3 * u.forward[i], most = 3 * u.forward[i] > most ? 3 * u.forward[i] : most;
        }
        table_init(&t, &pp_1f1b, p, 1, m);
        double ends = makespan_of(&t, &u), longest = m * most + sum - most;
        require(ends >= m * most && ends <= longest, &t, -1, "unequal stages: beyond the bounds");
        if (3 * u.forward[p - 1] == most) require(ends == longest, &t, -1, "unequal stages: not the closed form");
        table_fini(&t);
    }
}

/* Equal stages, a wire of x: m S + (p-1) S + [2(p-1)(1 + m/p) - 2] x, m a multiple of p. Source: Qi et al. 2023, "Zero
 * Bubble Pipeline Parallelism", table of appendix. */
TEST(test_1f1b_with_wires_is_its_closed_form) {
    for (int p = 2; p <= 8; p++)
        for (int k = 1; k <= 4; k++) {
            struct table t;
            struct unequal u = {.wire = 3};
            int m = k * p;
            for (int i = 0; i < p; i++) u.forward[i] = 100;
            table_init(&t, &pp_1f1b, p, 1, m);
            double wires = (2 * (p - 1) * (1 + k) - 2) * 3;
            require(makespan_of(&t, &u) == (m + p - 1) * 300 + wires, &t, -1, "wires: not the closed form");
            table_fini(&t);
        }
}

/* The receiver computes for 5 between its receives: with one buffer the second send waits until 5, with two never. */
TEST(test_a_full_buffer_holds_the_sender) {
    const struct pp_times times = {{[TAPE_F] = 5}, 0};
    struct table t = {.p = 2, .v = 1};
    struct timeline line;
    for (int i = 0; i < 2; i++) pp_place(&pp_wind, &(struct pp_shape){2, 1, 2, {0}, NULL}, i, &t.stage[i]);
    for (int m = 0; m < 2; m++) schedule_add(&t.stage[0], SEND_F, 0, m);
    for (int m = 0; m < 2; m++) schedule_add(&t.stage[1], ACTION_F, 0, m), schedule_add(&t.stage[1], RECV_F, 0, m);
    for (int depth = 1; depth <= 2; depth++) {
        assert_ok(pp_timeline_make(t.stage, 2, depth, &times, &line));
        assert_close(line.span[0][1].end, depth == 1 ? 5 : 0, 0);
        assert_close(line.makespan, 10, 0);
        timeline_fini(&line);
    }
    table_fini(&t);
}

TEST(test_timeline_refuses_what_never_ends) {
    const struct pp_times times = {{0}, 0};
    struct schedule s[2] = {{0}};
    struct timeline line;
    for (int i = 0; i < 2; i++) pp_place(&pp_wind, &(struct pp_shape){2, 1, 5, {0}, NULL}, i, &s[i]);
    schedule_add(&s[1], RECV_F, 0, 3);
    assert_fails(pp_timeline_make(s, 2, 1, &times, &line), E_INTERNAL,
                 "stage 1, action 0: recv_F of chunk 0, microbatch 3",
                 "waits forever for stage 0, which does not send");
    timeline_fini(&line);
    schedule_add(&s[0], SEND_F, 0, 3), schedule_add(&s[0], SEND_F, 0, 4);
    assert_fails(pp_timeline_make(s, 2, 1, &times, &line), E_INTERNAL, "stage 1, action 1 (its end)",
                 "microbatch 4 is left over");
    timeline_fini(&line);
    s[0].n = s[1].n = 0;
    schedule_add(&s[1], SEND_F, 0, 0);
    assert_fails(pp_timeline_make(s, 2, 1, &times, &line), E_INTERNAL,
                 "stage 1, action 0: send_F of chunk 0, microbatch 0", "beyond the end");
    timeline_fini(&line);
    schedule_fini(&s[0]), schedule_fini(&s[1]);
}

TESTS(unit_test(test_gpipe_and_1f1b_are_their_closed_forms), unit_test(test_interleaved_is_its_closed_form),
      unit_test(test_timeline_of_two_stages), unit_test(test_messages_take_their_time),
      unit_test(test_1f1b_of_unequal_stages_is_its_closed_form), unit_test(test_1f1b_with_wires_is_its_closed_form),
      unit_test(test_a_full_buffer_holds_the_sender), unit_test(test_timeline_refuses_what_never_ends))
