/* ranks: 1  device: cpu
 *
 * A schedule in a file (pp/pp_table.h), timed (pp/pp_timeline.h) under a limit of memory. The time of a step is the
 * figure of the leaderboard. */
#include "pp/pp_table.h"
#include "pp/pp_timeline.h"
#include "tests/test.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { P = 4, M = 8, MEMORY = 3 };
static const double LIST = 32, V_HALF = 29.5, BEST_KNOWN = 26.5, ROUNDING = 1e-9;

/* The time of a step, and the microbatches of a whole stage that the fullest rank keeps. */
struct played { double step, peak; };

/* The starter has lines of "?". */
static enum status look_for_questions(const char *path) {
    char line[4096];
    FILE *f = fopen(path, "r");
    bool todo = false;
    if (!f) return FAIL(E_IO, "cannot open the table %s", path);
    while (fgets(line, sizeof line, f)) todo |= line[0] == '?';
    fclose(f);
    return todo ? FAIL(E_TODO, "par.csv is not written yet: a line is still ?") : OK;
}

static enum status play(const struct pp_table *t, struct played *out) {
    struct schedule stage[P] = {{0}};
    struct timeline line;
    const struct pp_shape x = pp_shape_of(&t->row, P, t->n_chunks, M);
    const struct pp_times times = pp_times_of(&t->row, &x, &(struct pp_work){1, 1, 1}, 0);
    pp_schedules_make(&t->row, &x, stage);
    enum status status = pp_timeline_make(stage, P, INT_MAX, &times, &line);
    *out = (struct played){line.makespan, 0};
    for (int i = 0; i < P; i++) {
        double peak = (double)pp_peak_in_flight(&stage[i]) / x.n_chunks;
        if (peak > out->peak) out->peak = peak;
        schedule_fini(&stage[i]);
    }
    timeline_fini(&line);
    return status;
}

static enum status played(struct played *out) {
    const char *path = getenv("SUBMISSION");
    struct pp_table *t;
    if (!path) return FAIL(E_IO, "SUBMISSION does not say where the table is");
    TRY(look_for_questions(path));
    TRY(pp_table_read(path, &t));
    enum status status = OK;
    if (t->n_ranks != P || t->n_microbatches != M)
        status = FAIL(E_CONFIG, "the table has %d ranks and %d microbatches; %d and %d are wanted", t->n_ranks,
                      t->n_microbatches, P, M);
    if (status == OK) status = play(t, out);
    pp_table_free(&t);
    return status;
}

static void check_memory(const struct played *x) {
    if (x->peak > MEMORY) fail_msg("a rank keeps %g microbatches at a time; %d are allowed", x->peak, MEMORY);
}

static void check_step(double limit, bool less) {
    struct played x;
    assert_ok(played(&x));
    check_memory(&x);
    if (x.step > limit + (less ? -ROUNDING : ROUNDING))
        fail_msg("a step takes %g; %s%g would do", x.step, less ? "less than " : "", limit);
}

TEST(test_par_runs) {
    struct played x;
    assert_ok(played(&x));
}

TEST(test_par_keeps_three_microbatches) {
    struct played x;
    assert_ok(played(&x));
    check_memory(&x);
    dprintf(STDERR_FILENO, "figure %g\n", x.step);   /* for the grader; a test's output is shown on failure only */
}

TEST(test_par_is_no_slower_than_list_scheduling) { check_step(LIST, false); }
TEST(test_par_is_faster_than_v_half) { check_step(V_HALF, true); }
TEST(test_par_is_as_fast_as_the_best_known) { check_step(BEST_KNOWN, false); }

TESTS(unit_test(test_par_runs), unit_test(test_par_keeps_three_microbatches),
      unit_test(test_par_is_no_slower_than_list_scheduling), unit_test(test_par_is_faster_than_v_half),
      unit_test(test_par_is_as_fast_as_the_best_known))
