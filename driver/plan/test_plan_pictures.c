/* ranks: 1  device: cpu */
/* The pictures of a search: as many marks as layouts, with the numbers that the search has; however many there are,
 * memory is bounded. Whole pages, and that they are well-formed: tests/plan.sh. */
#define _GNU_SOURCE /* open_memstream */
#include "tests/test.h"

#include "driver/chart/chart.h"
#include "driver/plan/plan_tables.h"
#include "driver/plan/plan_pipeline.h"
#include "driver/recipe.h"
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0

static int count(const char *text, const char *words) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) n++;
    return n;
}

static struct plan small(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    snprintf(p.model, sizeof p.model, "small");
    p.layers = 8, p.hidden = 512, p.heads = 8, p.seq = 512, p.vocab = 4096, p.global_batch = 64;
    p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    return p;
}

/* A search in which some layouts do not fit. */
struct searched { struct plan plan; struct cluster cluster; struct search found; struct plan_dots dots; };
static struct plan_page page_of(struct searched *s) {
    assert_ok(cluster_read("dgx-a100", &s->cluster));
    s->plan = small();
    s->cluster.memory_bytes = (int64_t)(0.4 * GIB), s->cluster.reserve_bytes = 0;
    plan_dots_init(&s->dots);
    assert_ok(search_layouts_telling(&train_recipe, &s->plan, 0, &s->cluster, 8, true, plan_dots_take, &s->dots,
                                     &s->found));
    const struct found *fastest = &s->found.best[0];
    for (int i = 0; i < s->found.n_best; i++) plan_dots_put(&s->dots, &s->found.best[i]);
    assert_ok(plan_dots_price_the_rest(&s->dots, &train_recipe, &s->plan, 0, &s->cluster));
    return (struct plan_page){.asked = &s->plan, .cluster = &s->cluster, .ranks = 8, .search = &s->found, .n_shown = 5,
                              .n_tied = 1, .fastest = fastest, .dots = &s->dots, .command = "train <&>"};
}
static void searched_fini(struct searched *s) {
    search_fini(&s->found);
    plan_dots_fini(&s->dots);
}

/* The hint of a mark, as it is escaped: there is nothing in it to escape. */
static void hint_of(const struct found *f, const char *why, char *out, size_t size) {
    char text[192], step[CHART_NUMBER_BYTES], gib[CHART_NUMBER_BYTES];
    snprintf(out, size, "<title>%s: %s s, %s GiB; %s</title>", layout_text(&f->layout, text, sizeof text),
             chart_number(f->price.step_s, step), chart_number((double)f->price.total_bytes / GIB, gib), why);
}

TEST(test_every_layout_has_a_mark_with_its_numbers) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    char *text = NULL, hint[512];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    const struct search_stat *n = &s->found.stat;
    int drawn = plan_picture_memory(&page, f);
    fclose(f);
    /* the layouts that are kept were priced before, so none is drawn twice */
    assert_int_equal(s->dots.fit.n, n->priced - n->no_fit);
    assert_int_equal(s->dots.refined, 0);
    assert_true(n->no_fit > 0 && s->dots.no_fit.seen == n->no_fit);
    assert_int_equal(drawn, s->dots.fit.n + s->dots.no_fit.n);
    assert_int_equal(count(text, "<circle"), drawn);
    assert_int_equal(count(text, "; does not fit</title>"), s->dots.no_fit.n);
    for (int i = 0; i < s->found.n_best; i++) {
        double times = s->found.best[i].price.step_s / s->found.best[0].price.step_s;
        if (times > 1 + MODEL_ERROR) continue;
        hint_of(&s->found.best[i], "tied with the fastest", hint, sizeof hint);
        assert_int_equal(count(text, hint), 1);
    }
    assert_int_equal(count(text, ">0.4 GiB: what a rank has<"), 1);
    assert_int_equal(count(text, "nan") + count(text, "inf"), 0);
    free(text);
    searched_fini(s);
    free(s);
}

/* What does not fit is priced in full: its bytes are beyond the limit, and its step is known. */
TEST(test_marks_that_do_not_fit_lie_beyond_the_wall) {
    struct searched *s = calloc(1, sizeof *s);
    page_of(s);
    for (int i = 0; i < s->dots.no_fit.n; i++) {
        const struct plan_dot *d = &s->dots.no_fit.dot[i];
        double sum = 0;
        for (int k = 0; k < N_PARTS; k++) sum += d->part_s[k];
        assert_true(d->bytes > s->cluster.memory_bytes && d->step_s > 0);
        assert_close(sum, d->step_s, 1e-9 * d->step_s);
    }
    for (int i = 0; i < s->dots.fit.n; i++) assert_true(s->dots.fit.dot[i].bytes <= s->cluster.memory_bytes);
    searched_fini(s);
    free(s);
}

TEST(test_phases_are_the_steps_of_what_is_printed) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    char *text = NULL, number[CHART_NUMBER_BYTES], wanted[64];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    plan_picture_phases(&page, f);
    fclose(f);
    for (int i = 0; i < 5; i++) {
        snprintf(wanted, sizeof wanted, ">%s<", chart_number(s->found.best[i].price.step_s, number));
        assert_true(count(text, wanted) >= 1);
    }
    assert_int_equal(count(text, "; tied<"), 1);
    assert_int_equal(count(text, " GiB"), 5);
    free(text);
    searched_fini(s);
    free(s);
}

/* However many come, no more than the limit are kept, and these lie evenly: the first, and every 2^k-th after it. */
TEST(test_kept_dots_are_few_and_even) {
    struct plan_dots d;
    struct found *f = calloc(1, sizeof *f);
    plan_dots_init(&d);
    for (int i = 0; i < 10 * MOST_DOTS_THAT_DO_NOT; i++) {
        f->price.total_bytes = i;
        plan_dots_take(&d, f);
        assert_true(d.no_fit.n <= MOST_DOTS_THAT_DO_NOT);
    }
    assert_int_equal(d.no_fit.seen, 10 * MOST_DOTS_THAT_DO_NOT);
    assert_true(d.no_fit.n > MOST_DOTS_THAT_DO_NOT / 2 && d.fit.n == 0);
    for (int i = 0; i < d.no_fit.n; i++) assert_int_equal(d.no_fit.dot[i].bytes, 16 * i);
    plan_dots_fini(&d);
    free(f);
}

/* One that the search has not seen is a dot beside those that were timed, and counted apart; itself again is none. */
TEST(test_what_is_refined_is_counted_apart) {
    struct searched *s = calloc(1, sizeof *s);
    struct found *f = calloc(1, sizeof *f);
    page_of(s);
    int before = s->dots.fit.n;
    *f = s->found.best[0];
    f->layout.blocks = 1, f->layout.choice[DECIDE_RECOMPUTE] = KEEP_SOME;
    plan_dots_put(&s->dots, f);
    plan_dots_put(&s->dots, f);
    assert_int_equal(s->dots.fit.n, before + 1);
    assert_int_equal(s->dots.refined, 1);
    searched_fini(s);
    free(s);
    free(f);
}

/* ---- tables ---- */
static char *table_of(const struct plan_page *page, void (*write)(const struct plan_page *, FILE *)) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    write(page, f);
    fclose(f);
    return text;
}

TEST(test_ties_are_marked_and_counted) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    for (page.n_tied = 1; page.n_tied < 8; page.n_tied++) {
        char *text = table_of(&page, plan_table_layouts), said[32];
        snprintf(said, sizeof said, page.n_tied > 1 ? "= %d layouts" : "no other layout", page.n_tied);
        assert_int_equal(count(text, said), 1);
        assert_int_equal(count(text, ", 5 of them here,"), page.n_tied > 5);
        assert_int_equal(count(text, "<tr><th scope=\"row\">"), 5);
        assert_int_equal(count(text, "<th scope=\"row\">=<"), page.n_tied < 5 ? page.n_tied : 5);
        free(text);
    }
    searched_fini(s);
    free(s);
}

TEST(test_a_tipping_point_has_its_side_its_unit_and_who_wins) {
    struct searched *s = calloc(1, sizeof *s);
    struct plan_page page = page_of(s);
    const struct layout other = s->found.best[3].layout;
    const struct tipping tipping[N_ASSUMPTIONS] = {
        [ASSUME_WIRE] = {20e9, 31e9, other}, [ASSUME_PRODUCTS] = {0.79, 0.4, other},
        [ASSUME_RESERVE] = {5 * GIB, 0, {{0}}}};
    char name[192], cell[256];
    page.tipping = tipping;
    char *text = table_of(&page, plan_table_tipping);
    snprintf(cell, sizeof cell, "<td class=\"text\">%s</td>", layout_text(&other, name, sizeof name));
    assert_int_equal(count(text, cell), 2);
    assert_int_equal(count(text, "<td>20 GB/s</td><td class=\"text\">above 31 GB/s</td>"), 1);
    assert_int_equal(count(text, "<td>0.79</td><td class=\"text\">below 0.4</td>"), 1);
    assert_int_equal(count(text, "<td>5 GiB</td><td class=\"text\">no value from a quarter"), 1);
    free(text);
    page.fastest = NULL;
    text = table_of(&page, plan_table_tipping);
    assert_string_equal(text, "");
    free(text);
    searched_fini(s);
    free(s);
}

/* ---- the pipeline ---- */
TEST(test_a_long_pipeline_is_shortened_to_rounds) {
    assert_int_equal(plan_pipeline_microbatches(4, 1, 16), 16);      /* 128 boxes */
    assert_int_equal(plan_pipeline_microbatches(8, 12, 48), 16);     /* two rounds at least: 3072 boxes */
    assert_int_equal(plan_pipeline_microbatches(8, 1, 480), 184);    /* 23 rounds: 2944 boxes */
    assert_int_equal(plan_pipeline_microbatches(64, 1, 64), 64);
}

static char *pipeline_of(struct searched *s, const struct layout *l) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_ok(plan_pipeline_svg(&train_recipe, &s->plan, 0, &s->cluster, l, f));
    fclose(f);
    return text;
}

TEST(test_a_pipeline_has_a_box_an_action) {
    struct searched *s = calloc(1, sizeof *s);
    struct layout l = {.choice = {[DECIDE_TP] = 1, [DECIDE_PP] = 4, [DECIDE_CP] = 1, [DECIDE_EP] = 1,
                                  [DECIDE_MICRO] = 4, [DECIDE_CHUNKS] = 1}, .dp = 2};
    s->plan = small();
    assert_ok(cluster_read("dgx-a100", &s->cluster));
    char *text = pipeline_of(s, &l);
    assert_int_equal(count(text, "<title>forward of"), 4 * 8);       /* 64 sequences, 2 replicas of 4 at a time */
    assert_int_equal(count(text, "<title>backward of"), 4 * 8);
    assert_int_equal(count(text, "1f1b: 4 stages, 8 microbatches"), 1);
    free(text);
    l.choice[DECIDE_PP] = 1, l.dp = 8;
    text = pipeline_of(s, &l);
    assert_string_equal(text, "");
    free(text);
    free(s);
}

TESTS(unit_test(test_every_layout_has_a_mark_with_its_numbers),
      unit_test(test_marks_that_do_not_fit_lie_beyond_the_wall),
      unit_test(test_phases_are_the_steps_of_what_is_printed), unit_test(test_kept_dots_are_few_and_even),
      unit_test(test_what_is_refined_is_counted_apart), unit_test(test_ties_are_marked_and_counted),
      unit_test(test_a_tipping_point_has_its_side_its_unit_and_who_wins),
      unit_test(test_a_long_pipeline_is_shortened_to_rounds), unit_test(test_a_pipeline_has_a_box_an_action))
