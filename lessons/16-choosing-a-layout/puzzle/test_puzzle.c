/* ranks: 1  device: cpu
 *
 * Layouts for imaginary clusters, priced as by trivium plan, and compared with the best layout of its search. */
#include "driver/recipe.h"
#include "planner/explain.h"
#include "planner/search.h"
#include "tests/test.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "lessons/16-choosing-a-layout/puzzle/"
struct puzzle { const char *model, *cluster; int ranks; };
enum { N_PUZZLES = 3 };
static const struct puzzle PUZZLES[N_PUZZLES] = {{"--model gpt3-1.3b --global-batch 64", FOLDER "pcie.ini", 8},
                                                 {"--model llama2-13b --global-batch 128", FOLDER "four.ini", 64},
                                                 {"--model gpt3-6.7b --global-batch 128", FOLDER "pcie.ini", 8}};
static const double FAIR = 1.25;

/* ---- reading ---- */
static enum status allow(const char *word) {
    static const char *const ALLOWED[] = {"dp",        "tp",          "pp",       "cp",     "sp",      "zero",
                                          "recompute", "micro-batch", "schedule", "chunks", "pp-split"};
    for (size_t i = 0; i < sizeof ALLOWED / sizeof *ALLOWED; i++) {
        size_t n = strlen(ALLOWED[i]);
        if (!strncmp(word, "--", 2) && !strncmp(word + 2, ALLOWED[i], n) && (!word[n + 2] || word[n + 2] == '='))
            return OK;
    }
    return word[0] == '-' ? FAIL(E_FORMAT,
                                 "%s is given; a layout may say dp, tp, pp, cp, sp, zero, recompute, micro-batch, "
                                 "schedule, chunks, pp-split",
                                 word)
                          : OK;
}

/* The options after "N:" in the file that SUBMISSION names. */
static enum status read_layout(int number, char text[512]) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    bool found = false;
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    while (fgets(line, sizeof line, file))
        if (line[0] == '0' + number && line[1] == ':') snprintf(text, 512, "%s", line + 2), found = true;
    fclose(file);
    if (!found) return FAIL(E_FORMAT, "there is no line \"%d: ...\"", number);
    return strchr(text, '?') ? FAIL(E_TODO, "layout %d is yours to choose", number) : OK;
}

enum { MOST_WORDS = 64 };
static enum status words(char *text, char *argv[MOST_WORDS], int *argc, bool check) {
    for (char *word = strtok(text, " \t\r\n"); word; word = strtok(NULL, " \t\r\n")) {
        if (*argc == MOST_WORDS) return FAIL(E_FORMAT, "too many words");
        if (check) TRY(allow(word));
        argv[(*argc)++] = word;
    }
    return OK;
}

/* Parse the given options and those of `layout` (may be ""). The plan is not settled. */
static enum status parse(const struct puzzle *p, char *layout, struct plan *plan) {
    char given[256], *argv[MOST_WORDS];
    int argc = 0;
    struct options *o = NULL;
    snprintf(given, sizeof given, "%s --precision bf16 --device cuda", p->model);
    TRY(words(given, argv, &argc, false));
    TRY(words(layout, argv, &argc, true));
    memset(plan, 0, sizeof *plan);
    TRY(recipe_options_create(NULL, plan, &o));
    enum status status = options_parse(o, argc, argv);
    if (status == OK) status = recipe_preset(plan, o);
    options_destroy(&o);
    return status;
}

/* ---- prices ---- */
static enum status price_of_layout(int number, struct price *out) {
    const struct puzzle *p = &PUZZLES[number - 1];
    char text[512];
    struct plan plan;
    struct cluster c;
    TRY(read_layout(number, text));
    bool uneven = strstr(text, "pp-split") != NULL;
    TRY(parse(p, text, &plan));
    TRY(plan_settle(&plan, p->ranks));
    TRY(cluster_read(p->cluster, &c));
    return price_plan(&train_recipe, &plan, &c, &(struct price_wish){.uneven = uneven}, out);
}

/* Seconds of the best layout that the search finds. Each puzzle is searched once. */
static double planners(int number) {
    static double known[N_PUZZLES];
    const struct puzzle *p = &PUZZLES[number - 1];
    char nothing[] = "";
    struct plan asked;
    struct cluster c;
    struct search *s;
    if (known[number - 1] > 0) return known[number - 1];
    assert_ok(parse(p, nothing, &asked));
    assert_ok(cluster_read(p->cluster, &c));
    assert_non_null(s = calloc(1, sizeof *s));
    assert_ok(search_layouts(&train_recipe, &asked, 0, &c, p->ranks, true, s));
    known[number - 1] = s->n_best ? s->best[0].price.step_s : NAN;
    search_fini(s);
    free(s);
    return known[number - 1];
}

#define GIB 1073741824.0
/* Fail unless the layout fits and takes at most `most` times the seconds of the planner's best. */
static double check(int number, double most, const char *wanted) {
    static struct price x;
    struct cluster c;
    assert_ok(price_of_layout(number, &x));
    assert_ok(cluster_read(PUZZLES[number - 1].cluster, &c));
    if (!x.fits)
        fail_msg("layout %d takes %.1f GiB on its fullest stage; there are %.1f", number, (double)x.total_bytes / GIB,
                 (double)(c.memory_bytes - c.reserve_bytes) / GIB);
    double best = planners(number);
    if (!(x.step_s < most * best)) {
        int longest = PRICE_REPLAY;
        for (int i = PRICE_REPLAY; i < N_PRICE_PHASES; i++)
            if (x.phase_s[i] > x.phase_s[longest]) longest = i;
        fail_msg("a step of layout %d takes %.3f s, and the planner's %.3f: %s. Besides products and memory, most goes "
                 "into %s: %.3f s",
                 number, x.step_s, best, wanted, price_phase_name((enum price_phase)longest), x.phase_s[longest]);
    }
    return x.step_s / best;
}

/* ---- claims ---- */
static void fair(int number) { check(number, FAIR, "at most 1.25 times as long is asked for here"); }
static void good(int number) { check(number, 1 + MODEL_ERROR, "more than the model's error, 3.3 %"); }

TEST(test_puzzle_1_fits_and_is_fair) { fair(1); }
TEST(test_puzzle_1_is_as_good_as_the_planners) { good(1); }
TEST(test_puzzle_2_fits_and_is_fair) { fair(2); }
TEST(test_puzzle_2_is_as_good_as_the_planners) { good(2); }
TEST(test_puzzle_3_fits_and_is_fair) { fair(3); }
TEST(test_puzzle_3_is_as_good_as_the_planners) { good(3); }

/* Print the leaderboard's figure: the mean over the three puzzles of seconds relative to the planner's. Print nothing
 * unless all three layouts are possible and fit. */
static void say_figure(void) {
    static struct price x;
    double sum = 0;
    for (int i = 1; i <= N_PUZZLES; i++) {
        if (price_of_layout(i, &x) != OK || !x.fits) {
            status_clear();
            return;
        }
        sum += x.step_s / planners(i);
    }
    dprintf(STDERR_FILENO, "figure %.4f\n", sum / N_PUZZLES);
}

TEST(test_puzzle_3_beats_the_planner) {
    say_figure();
    check(3, 1, "it must be faster");
}

TESTS(unit_test(test_puzzle_1_fits_and_is_fair), unit_test(test_puzzle_1_is_as_good_as_the_planners),
      unit_test(test_puzzle_2_fits_and_is_fair), unit_test(test_puzzle_2_is_as_good_as_the_planners),
      unit_test(test_puzzle_3_fits_and_is_fair), unit_test(test_puzzle_3_is_as_good_as_the_planners),
      unit_test(test_puzzle_3_beats_the_planner))
