/* ranks: 1  device: cpu
 *
 * Schedules are pure tables: every one up to 16 stages and 32 microbatches is made, checked and simulated. */
#include "lib/run/plan.h"
#include "pp/pp_schedule.h"
#include "pp/pp_timeline.h"
#include "pp/test_pp_picture.h"
#include "tests/test.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_P = 16, MAX_M = 32, F_TIME = 1, B_TIME = 2 };

struct table { const struct pp_schedule *row; int p, m; struct schedule stage[MAX_P]; };

static void table_init(struct table *t, const struct pp_schedule *row, int p, int m) {
    *t = (struct table){.row = row, .p = p, .m = m};
    for (int i = 0; i < p; i++) pp_schedule_make(row, &(struct pp_shape){p, 1, m, {0}, NULL}, i, &t->stage[i]);
}
static void table_fini(struct table *t) {
    for (int i = 0; i < t->p; i++) schedule_fini(&t->stage[i]);
}

/* A failure must print its table, one of a thousand. */
static void require(bool ok, const struct table *t, int stage, const char *what) {
    if (!ok)
        fail_drawn(t->row, t->p, 1, t->m, "%s p=%d m=%d stage %d: %s", t->row->name, t->p, t->m, stage, what);
}

static void each_table(void (*visit)(const struct table *)) {
    for (int k = 0; k < 2; k++)
        for (int p = 1; p <= MAX_P; p++)
            for (int m = 1; m <= MAX_M; m++) {
                struct table t;
                table_init(&t, pp_schedule_at(k), p, m);
                visit(&t);
                table_fini(&t);
            }
}

/* ---- one stage's table ---- */
static void check_order(const struct table *t, int stage) {
    const struct schedule *s = &t->stage[stage];
    int next[N_ACTIONS] = {0};
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        require(a->chunk == 0, t, stage, "another chunk than 0");
        require(a->microbatch == next[a->kind]++, t, stage, "microbatches of a kind are not in order, each once");
        if (a->kind == ACTION_B) require(a->microbatch < next[ACTION_F], t, stage, "a backward before its forward");
    }
    require(next[ACTION_F] == t->m && next[ACTION_B] == t->m, t, stage, "not every forward, or not its backward");
    require(next[ACTION_W] == 0, t, stage, "weight gradients apart");
}

/* Is the action at i + by of this kind and of the same microbatch? */
static bool stands_by(const struct schedule *s, int i, int by, enum action_kind kind) {
    int j = i + by;
    return j >= 0 && j < s->n && s->actions[j].kind == kind && s->actions[j].microbatch == s->actions[i].microbatch;
}

/* A receive is directly before the action that reads it, a send directly after the action that makes it. The ends of
 * the pipeline have none. */
static void check_transfers(const struct table *t, int stage) {
    const struct schedule *s = &t->stage[stage];
    bool first = stage == 0, last = stage == t->p - 1;
    int n_transfers = 0;
    for (int i = 0; i < s->n; i++) {
        enum action_kind k = s->actions[i].kind;
        if (k == ACTION_F) {
            require(stands_by(s, i, -1, RECV_F) == !first, t, stage, "the receive before a forward");
            require(stands_by(s, i, 1, SEND_F) == !last, t, stage, "the send after a forward");
        } else if (k == ACTION_B) {
            require(stands_by(s, i, -1, RECV_B) == !last, t, stage, "the receive before a backward");
            require(stands_by(s, i, 1, SEND_B) == !first, t, stage, "the send after a backward");
        } else n_transfers++;
    }
    require(n_transfers == 2 * t->m * (!first + !last), t, stage, "transfers that belong to nothing");
}

static int least(int a, int b) { return a < b ? a : b; }

static void check_stages(const struct table *t) {
    for (int i = 0; i < t->p; i++) {
        check_order(t, i);
        check_transfers(t, i);
        require(t->stage[i].n_microbatches == t->m && !t->stage[i].split_weight, t, i, "its head");
    }
}
static void check_peaks(const struct table *t) {
    for (int i = 0; i < t->p; i++) {
        int peak = t->row == &pp_gpipe ? t->m : least(t->p - i, t->m);
        require(pp_peak_in_flight(&t->stage[i]) == peak, t, i, "microbatches in flight");
    }
}

TEST(test_pp_schedule_runs_every_microbatch_in_order) {
    each_table(check_stages);
}

TEST(test_pp_schedule_peak_is_its_closed_form) {
    each_table(check_peaks);
}

/* Written by hand: stage 0, stage 1. */
TEST(test_pp_schedule_1f1b_of_two_stages_is_the_textbooks) {
    static const char *const expected[] = {"F0 F1 B0 F2 B1 F3 B2 B3 ", "F0 B0 F1 B1 F2 B2 F3 B3 "};
    struct table t;
    table_init(&t, &pp_1f1b, 2, 4);
    for (int stage = 0; stage < 2; stage++) {
        char text[64] = "";
        for (int i = 0; i < t.stage[stage].n; i++) {
            const struct action *a = &t.stage[stage].actions[i];
            size_t used = strlen(text);
            if (action_is_compute(a->kind))
                snprintf(text + used, sizeof text - used, "%s%d ", action_name(a->kind), a->microbatch);
        }
        assert_string_equal(text, expected[stage]);
    }
    table_fini(&t);
}

/* ---- all stages together ---- */
/* For both schedules one message in flight per direction is enough, at any size. With none, no send could end. */
static void check_depth(const struct table *t) {
    int depth = pp_send_depth(t->row, &(struct pp_shape){t->p, 1, t->m, {0}, NULL});
    require(depth == 1, t, -1, "the depth is not 1");
    require(pp_simulate(t->stage, t->p, depth), t, -1, "its own depth is not enough");
    require(t->p == 1 || !pp_simulate(t->stage, t->p, depth - 1), t, -1, "a smaller depth would be enough");
    require(!t->stage[0].send_depth, t, -1, "pp_schedule_make is not asked for the depth");
}

TEST(test_pp_schedule_depth_is_the_least_that_does_not_deadlock) {
    each_table(check_depth);
}

/* With the row's depth no stage ever waits for room: a step takes as long as with any number of buffers. With one less
 * it takes longer, or forever. Every row of the list, steps of up to nine rounds of microbatches. */
static double step_time(const struct schedule *stages, int p, int depth, const struct pp_times *times) {
    struct timeline t;
    enum status status = depth > 0 ? pp_timeline_make(stages, p, depth, times, &t) : E_INTERNAL;
    double end = status == OK ? t.makespan : INFINITY;
    status_clear();
    if (depth > 0) timeline_fini(&t);
    return end;
}

TEST(test_pp_schedule_depth_is_the_least_that_never_waits) {
    for (int k = 0; k < N_SYNCHRONOUS; k++)
        for (int p = 2; p <= 5; p++)
            for (int v = 1; v <= (pp_schedule_at(k)->chunked ? 3 : 1); v++)
                for (int m = 1; m <= 9 * p; m += m < 3 * p ? 1 : 2 * p) {
                    const struct pp_shape x = pp_shape_of(pp_schedule_at(k), p, v, m);
                    const struct pp_times times =
                        pp_times_of(pp_schedule_at(k), &x, &(struct pp_work){1, 1, 1}, 0);
                    struct schedule stages[5];
                    if (pp_schedule_legal(pp_schedule_at(k), &x) != OK) {
                        status_clear();
                        continue;
                    }
                    for (int i = 0; i < p; i++) pp_schedule_make(pp_schedule_at(k), &x, i, &stages[i]);
                    int depth = pp_send_depth(pp_schedule_at(k), &x);
                    double best = step_time(stages, p, INT_MAX, &times);
                    assert_close(step_time(stages, p, depth, &times), best, 0);
                    assert_true(step_time(stages, p, depth - 1, &times) > best);
                    for (int i = 0; i < p; i++) schedule_fini(&stages[i]);
                }
}

/* Two stages that both send three before they receive: deadlock with room for two on the wire, none with three. */
static void add_all(struct schedule *s, enum action_kind kind, int n) {
    for (int m = 0; m < n; m++) schedule_add(s, kind, 0, m);
}
TEST(test_pp_simulate_finds_a_deadlock_of_full_wires) {
    const struct pp_shape shape = {2, 1, 3, {0}, NULL};
    struct schedule s[2] = {{0}};
    for (int i = 0; i < 2; i++) pp_place(&pp_wind, &shape, i, &s[i]);
    add_all(&s[0], SEND_F, 3), add_all(&s[0], RECV_B, 3);
    add_all(&s[1], SEND_B, 3), add_all(&s[1], RECV_F, 3);
    assert_false(pp_simulate(s, 2, 1));
    assert_false(pp_simulate(s, 2, 2));
    assert_true(pp_simulate(s, 2, 3));
    schedule_fini(&s[0]), schedule_fini(&s[1]);
}

/* ---- broken tables ---- */
static int find(const struct schedule *s, enum action_kind kind, int microbatch) {
    for (int i = 0; i < s->n; i++)
        if (s->actions[i].kind == kind && s->actions[i].microbatch == microbatch) return i;
    return -1;
}
static void swap(struct schedule *s, int i, int j) {
    struct action a = s->actions[i];
    s->actions[i] = s->actions[j];
    s->actions[j] = a;
}
static void erase(struct schedule *s, int i) {
    memmove(&s->actions[i], &s->actions[i + 1], (size_t)(--s->n - i) * sizeof *s->actions);
}

static void break_swapped_receives(struct table *t) {
    swap(&t->stage[1], find(&t->stage[1], RECV_F, 1), find(&t->stage[1], RECV_F, 2));
}
static void break_swapped_sends(struct table *t) {
    swap(&t->stage[2], find(&t->stage[2], SEND_B, 0), find(&t->stage[2], SEND_B, 1));
}
static void break_missing_send(struct table *t) { erase(&t->stage[0], find(&t->stage[0], SEND_F, 3)); }
static void break_missing_receive(struct table *t) { erase(&t->stage[0], find(&t->stage[0], RECV_B, 7)); }
static void break_receive_too_early(struct table *t) {   /* stage 0 receives a gradient before it has sent an
                                                            activation */
    swap(&t->stage[0], find(&t->stage[0], SEND_F, 0), find(&t->stage[0], RECV_B, 0));
}
static void break_send_twice(struct table *t) { schedule_add(&t->stage[0], SEND_F, 0, 7); }

TEST(test_pp_simulate_rejects_broken_tables) {
    void (*const breaks[])(struct table *) = {break_swapped_receives, break_swapped_sends,     break_missing_send,
                                              break_missing_receive,  break_receive_too_early, break_send_twice};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
            struct table t;
            table_init(&t, pp_schedule_at(k), 4, 8);
            require(pp_simulate(t.stage, 4, 8), &t, -1, "the sound table is rejected");
            breaks[i](&t);
            require(!pp_simulate(t.stage, 4, 8), &t, (int)i, "a broken table (the number of the break) is accepted");
            table_fini(&t);
        }
}

/* ---- the bubble, in simulated time ---- */
/* Transfers take no time, but a receive waits for its send. sent_at[stage][backward][microbatch]; -1: not yet. */
struct clocks { int now[MAX_P], at[MAX_P], sent_at[MAX_P][2][MAX_M]; };

static bool tick(const struct table *t, struct clocks *c, int stage) {
    struct action a = t->stage[stage].actions[c->at[stage]];
    bool backward = a.kind == SEND_B || a.kind == RECV_B;
    if (a.kind == SEND_F || a.kind == SEND_B) c->sent_at[stage][backward][a.microbatch] = c->now[stage];
    if (a.kind == RECV_F || a.kind == RECV_B) {
        int sent = c->sent_at[stage + (backward ? 1 : -1)][backward][a.microbatch];
        if (sent < 0) return false;
        if (sent > c->now[stage]) c->now[stage] = sent;
    }
    if (a.kind == ACTION_F) c->now[stage] += F_TIME;
    if (a.kind == ACTION_B) c->now[stage] += B_TIME;
    c->at[stage]++;
    return true;
}

static int makespan(const struct table *t) {
    static struct clocks c;
    int end = 0;
    memset(&c, 0, sizeof c);
    memset(c.sent_at, 0xff, sizeof c.sent_at);
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < t->p; i++)
            while (c.at[i] < t->stage[i].n && tick(t, &c, i)) moved = true;
    }
    for (int i = 0; i < t->p; i++) {
        require(c.at[i] == t->stage[i].n, t, i, "did not get to its end");
        if (c.now[i] > end) end = c.now[i];
    }
    return end;
}

/* Every stage works m (F+B); the rest of the step it is idle. */
static void check_bubble(const struct table *t) {
    int idle = makespan(t) - t->m * (F_TIME + B_TIME);
    require(idle == (t->p - 1) * (F_TIME + B_TIME), t, -1, "the bubble is not (p-1)(F+B)");
}

TEST(test_pp_schedule_bubble_is_its_closed_form) {
    each_table(check_bubble);
}

/* --schedule is the index of a row. */
TEST(test_pp_schedules_are_in_the_order_of_their_names) {
    char names[512] = "";
    for (int i = 0; pp_schedule_at(i); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "|" : "", pp_schedule_at(i)->name);
    snprintf(names + strlen(names), sizeof names - strlen(names), "|file:PATH");
    assert_string_equal(names, PP_SCHEDULES);
}

TESTS(unit_test(test_pp_schedules_are_in_the_order_of_their_names),
      unit_test(test_pp_schedule_runs_every_microbatch_in_order), unit_test(test_pp_schedule_peak_is_its_closed_form),
      unit_test(test_pp_schedule_1f1b_of_two_stages_is_the_textbooks),
      unit_test(test_pp_schedule_depth_is_the_least_that_does_not_deadlock),
      unit_test(test_pp_schedule_depth_is_the_least_that_never_waits),
      unit_test(test_pp_simulate_finds_a_deadlock_of_full_wires), unit_test(test_pp_simulate_rejects_broken_tables),
      unit_test(test_pp_schedule_bubble_is_its_closed_form))
