/* ranks: 1  device: cpu
 *
 * Tables of schedules without a flush. Every microbatch reads the weights that the formulas give. No version is
 * overwritten while it is needed, and no unneeded version is kept. The tables repeat without deadlock. */
#include "pp/pp_check.h"
#include "pp/pp_timeline.h"
#include "pp/test_pp_picture.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_P = 8, MAX_K = 16, UPDATES = 12 };

static int at_least_0(int x) { return x > 0 ? x : 0; }
static int floor_div(int a, int b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/* The number of updates in the weights that microbatch t reads; p stages, k microbatches per update. */
static int formula(int schedule, int p, int k, int stage, int t, bool backward) {
    switch (schedule) {
    case SCHEDULE_PIPEDREAM: return at_least_0(floor_div(t - (p - 1 - stage), k));
    case SCHEDULE_VERTICAL: return at_least_0(floor_div(t - (p - 1), k));
    case SCHEDULE_2BW: return at_least_0(t / k - 1);
    default: return backward ? t / k : at_least_0(floor_div(t - (p - 1 - stage), k));
    }
}

/* Walk a stage's table. Every action must read the version of the formula, which n_versions slots must still hold.
 * @return the fault, or NULL; static storage */
static const char *walk(const struct schedule *s, int schedule, int p, int k, int stage, int n_versions) {
    static char text[128];
    struct schedule all;
    const char *wrong = NULL;
    pp_unroll(s, UPDATES, &all);
    for (int i = 0, done = 0; i < all.n && !wrong; i++) {
        const struct action *a = &all.actions[i];
        int newest = done / k, version = at_least_0(newest - a->age);
        if (!action_is_compute(a->kind)) continue;
        int right = formula(schedule, p, k, stage, a->microbatch, a->kind == ACTION_B);
        if (a->age < 0) wrong = "weights that are not there yet";
        else if (version != right) wrong = "weights of another update than its formula says";
        else if (newest - version >= n_versions) wrong = "weights that are overwritten already";
        if (wrong)
            snprintf(text, sizeof text, "%s: %s of microbatch %d reads those of %d updates, right is %d", wrong,
                     action_name(a->kind), a->microbatch, version, right);
        done += a->kind == ACTION_B;
    }
    free(all.actions);
    return wrong ? text : NULL;
}

typedef void visitor(int schedule, int p, int k, int stage, const struct schedule *);
static void each_of(int first, int end, visitor *visit) {
    for (int schedule = first; schedule < end; schedule++)
        for (int p = 1; p <= MAX_P; p++)
            for (int k = 1; k <= MAX_K; k++) {
                const struct pp_shape x = pp_shape_of(pp_schedule_at(schedule), p, 1, k);
                if (pp_schedule_legal(pp_schedule_at(schedule), &x) != OK) {
                    status_clear();
                    continue;
                }
                for (int stage = 0; stage < p; stage++) {
                    struct schedule s;
                    pp_schedule_make(pp_schedule_at(schedule), &x, stage, &s);
                    visit(schedule, p, k, stage, &s);
                    schedule_fini(&s);
                }
            }
}

static void each(visitor *visit) { each_of(N_SYNCHRONOUS, N_SCHEDULES, visit); }

static void check_reads(int schedule, int p, int k, int stage, const struct schedule *s) {
    const char *wrong = walk(s, schedule, p, k, stage, s->n_versions);
    const struct pp_schedule *row = pp_schedule_at(schedule);
    if (wrong) fail_drawn(row, p, 1, k, "%s p=%d k=%d stage %d reads %s", row->name, p, k, stage, wrong);
}
TEST(test_every_microbatch_reads_what_its_formula_says) {
    each(check_reads);
}

static void check_ages(int schedule, int p, int k, int stage, const struct schedule *s) {
    const char *wrong = walk(s, schedule, p, k, stage, MAX_P + 2);
    const struct pp_schedule *row = pp_schedule_at(schedule);
    if (wrong) fail_drawn(row, p, 1, k, "%s p=%d k=%d stage %d reads %s", row->name, p, k, stage, wrong);
}
TEST(test_pipedream_reads_what_its_formula_says) {
    each_of(SCHEDULE_PIPEDREAM, SCHEDULE_PIPEDREAM + 1, check_ages);
}
TEST(test_vertical_sync_reads_what_its_formula_says) {
    each_of(SCHEDULE_VERTICAL, SCHEDULE_VERTICAL + 1, check_ages);
}
TEST(test_2bw_reads_what_its_formula_says) {
    each_of(SCHEDULE_2BW, SCHEDULE_2BW + 1, check_ages);
}

/* 2BW has two versions by its name, also on stages that read only one. */
static void check_versions(int schedule, int p, int k, int stage, const struct schedule *s) {
    check_reads(schedule, p, k, stage, s);                           /* n_versions are enough */
    bool fewer_would_do = s->n_versions > 1 && !walk(s, schedule, p, k, stage, s->n_versions - 1);
    if (fewer_would_do && schedule != SCHEDULE_2BW)
        fail_drawn(pp_schedule_at(schedule), p, 1, k, "%s p=%d k=%d stage %d keeps %d versions, and one less would do",
                   pp_schedule_at(schedule)->name, p, k, stage, s->n_versions);
}
TEST(test_no_version_is_kept_for_nothing) {
    each(check_versions);
}

/* A microbatch keeps its frame from F to B, while others take theirs in turns. */
static void check_frames(int schedule, int p, int k, int stage, const struct schedule *s) {
    struct schedule all;
    int holder[MAX_P + 1];
    for (int i = 0; i <= MAX_P; i++) holder[i] = -1;
    pp_unroll(s, UPDATES, &all);
    for (int i = 0; i < all.n; i++) {
        const struct action *a = &all.actions[i];
        int *frame = &holder[a->microbatch % s->n_frames];
        bool taken = a->kind == ACTION_F && *frame >= 0;
        if (taken)
            fail_msg("%s p=%d k=%d stage %d: microbatch %d takes the frame of %d", pp_schedule_at(schedule)->name, p, k,
                     stage, a->microbatch, *frame);
        if (a->kind == ACTION_F) *frame = a->microbatch;
        if (a->kind == ACTION_B) *frame = -1;
    }
    free(all.actions);
}
TEST(test_frames_taken_in_turns_never_collide) {
    each(check_frames);
}

/* The fill, some updates and the drain are a sound table, with one staging buffer. */
TEST(test_the_fill_the_steps_and_the_drain_are_sound) {
    for (int p = 1; p <= MAX_P; p++)
        for (int k = 1; k <= MAX_K; k += 3)
            for (int updates = 1; updates <= 4; updates++) {
                const struct pp_shape x = pp_shape_of(&pp_pipedream, p, 1, k);
                struct schedule stages[MAX_P], all[MAX_P];
                pp_schedules_make(&pp_pipedream, &x, stages);
                for (int i = 0; i < p; i++) pp_unroll(&stages[i], updates, &all[i]);
                assert_ok(pp_check_schedules(all, p, 1, 1));
                for (int i = 0; i < p; i++) {
                    free(all[i].actions);
                    schedule_fini(&stages[i]);
                }
            }
}

TESTS(unit_test(test_every_microbatch_reads_what_its_formula_says),
      unit_test(test_pipedream_reads_what_its_formula_says), unit_test(test_vertical_sync_reads_what_its_formula_says),
      unit_test(test_2bw_reads_what_its_formula_says), unit_test(test_no_version_is_kept_for_nothing),
      unit_test(test_frames_taken_in_turns_never_collide),
      unit_test(test_the_fill_the_steps_and_the_drain_are_sound))
