/* ranks: 1  device: cpu
 *
 * Schedules written by hand, checked and timed as the project's own schedules are (pp/pp_check.h, pp/pp_timeline.h).
 * The table has the order of F, B and W; this test adds their transfers. A schedule that is too slow or too large is
 * drawn. */
#include "driver/chart/schedule_chart.h"
#include "pp/pp_check.h"
#include "pp/pp_timeline.h"
#include "tests/test.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PUZZLES = 3, MOST_STAGES = 4, M = 4 };
static const struct puzzle { int p; bool split; double F, B, W, longest; int most[MOST_STAGES]; } PUZZLES[N_PUZZLES] = {
    {3, false, 1, 2, 0, 18, {3, 2, 1}}, {4, false, 1, 2, 0, 27, {2, 2, 2, 2}}, {3, true, 1, 1, 1, 14, {3, 3, 3}}};

struct table { const struct puzzle *of; int n; struct schedule stage[MOST_STAGES]; };

/* ---- reading ---- */
static enum status read_cell(struct table *t, const char *cell, int number) {
    static const char letters[] = "FBW";
    const char *letter = strchr(letters, cell[0]);
    if (!strcmp(cell, ".")) return OK;
    if (cell[0] == '?') return FAIL(E_TODO, "line %d: this stage is yours to plan", number);
    if (!letter || !isdigit((unsigned char)cell[1]) || cell[2] || cell[1] - '0' >= M)
        return FAIL(E_FORMAT, "line %d: '%s' is no cell; use F0 to F%d, B0 to B%d, or .", number, cell, M - 1, M - 1);
    enum action_kind kind = (enum action_kind)(letter - letters);
    int m = cell[1] - '0';
    if (kind == ACTION_W && !t->of->split)
        return FAIL(E_FORMAT, "line %d: %s in a puzzle whose backwards are in one piece", number, cell);
    pp_add(&t->stage[t->n], action_of(kind, 0, m));
    return OK;
}

static enum status read_stage(struct table *t, char *text, int number) {
    if (t->n == t->of->p) return FAIL(E_FORMAT, "line %d: a stage too many; this puzzle has %d", number, t->of->p);
    pp_place(&pp_wind, &(struct pp_shape){t->of->p, 1, M, {0}, NULL}, t->n, &t->stage[t->n]);
    t->stage[t->n].n_microbatches = M;
    t->stage[t->n].split_weight = t->of->split;
    for (char *cell = strtok(text, " \t\r\n"); cell; cell = strtok(NULL, " \t\r\n")) TRY(read_cell(t, cell, number));
    t->n++;
    return OK;
}

static enum status read_puzzle(FILE *file, int wanted, struct table *t) {
    char text[512];
    int at = 0;
    for (int number = 1; fgets(text, sizeof text, file); number++) {
        text[strcspn(text, "#")] = 0;
        if (!text[strspn(text, " \t\r\n")]) continue;
        if (!strncmp(text, "puzzle", 6)) at = atoi(text + 6);
        else if (at == wanted) TRY(read_stage(t, text, number));
    }
    return t->n == t->of->p ? OK : FAIL(E_FORMAT, "puzzle %d has %d stages; %d are wanted", wanted, t->n, t->of->p);
}

static enum status table_init(struct table *t, int puzzle) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    *t = (struct table){.of = &PUZZLES[puzzle - 1]};
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    enum status status = read_puzzle(file, puzzle, t);
    fclose(file);
    return status == OK ? pp_check_schedules(t->stage, t->of->p, 1, M) : status;
}
static void table_fini(struct table *t) {
    for (int i = 0; i < MOST_STAGES; i++) schedule_fini(&t->stage[i]);
}

/* ---- costs ---- */
/* The largest number of microbatches held at a time: from F to B, or to W if W is separate. */
static int most_held(const struct schedule *s) {
    int now = 0, most = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->actions[i].kind == ACTION_F && ++now > most) most = now;
        now -= s->actions[i].kind == (s->split_weight ? ACTION_W : ACTION_B);
    }
    return most;
}

/* Draw as `trivium schedule` does. */
static void draw(struct table *t, const struct timeline *line, const struct pp_times *times) {
    struct schedule_chart chart = {.row = t->of->split ? &pp_zb_h1 : &pp_1f1b, .n_stages = t->of->p, .n_chunks = 1,
                                   .n_microbatches = M, .times = *times, .stages = t->stage, .timeline = *line};
    schedule_chart_text(&chart, stderr);
}

/* The error in a table that runs, or "". Static storage. */
static const char *too_much(const struct table *t, int puzzle, double time, bool fast, bool small) {
    static char text[128];
    text[0] = 0;
    for (int i = t->of->p - 1; small && i >= 0; i--) {
        int held = most_held(&t->stage[i]);
        if (held > t->of->most[i])
            snprintf(text, sizeof text, "puzzle %d: stage %d holds %d microbatches at a time; %d are allowed", puzzle,
                     i, held, t->of->most[i]);
    }
    if (fast && time > t->of->longest)
        snprintf(text, sizeof text, "puzzle %d takes %g; %g would do", puzzle, time, t->of->longest);
    return text;
}

static void check(int puzzle, bool fast, bool small) {
    struct table t;
    struct timeline line = {0};
    enum status status = table_init(&t, puzzle);
    const struct pp_times times = {{[TAPE_F] = t.of->F, [TAPE_B] = t.of->B, [TAPE_W] = t.of->W}, 0};
    if (status == OK) status = pp_timeline_make(t.stage, t.of->p, M, &times, &line);
    const char *wrong = status == OK ? too_much(&t, puzzle, line.makespan, fast, small) : "";
    if (*wrong) fprintf(stderr, "%s\n", wrong), draw(&t, &line, &times);
    timeline_fini(&line);
    table_fini(&t);
    assert_ok(status);
    if (*wrong) fail();
}

TEST(test_table_1_runs) { check(1, false, false); }
TEST(test_table_1_is_fast) { check(1, true, false); }
TEST(test_table_1_is_small) { check(1, false, true); }
TEST(test_table_2_runs) { check(2, false, false); }
TEST(test_table_2_is_fast_and_small) { check(2, true, true); }
TEST(test_table_3_runs) { check(3, false, false); }
TEST(test_table_3_is_fast_and_small) { check(3, true, true); }

TESTS(unit_test(test_table_1_runs), unit_test(test_table_1_is_fast), unit_test(test_table_1_is_small),
      unit_test(test_table_2_runs), unit_test(test_table_2_is_fast_and_small), unit_test(test_table_3_runs),
      unit_test(test_table_3_is_fast_and_small))
