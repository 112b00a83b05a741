/* ranks: 1  device: cpu */
/* Axes, numbers and escaping; and that a picture has what it was given. */
#define _GNU_SOURCE /* open_memstream */
#include "tests/test.h"

#include "driver/chart/chart.h"
#include "driver/chart/markup.h"
#include "driver/chart/memory_chart.h"
#include "driver/chart/schedule_chart.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- axes ---- */
static void check_scale(double most, double end, double step) {
    struct chart_scale s = chart_scale_of(most);
    assert_close(s.end, end, 1e-12 * end);
    assert_close(s.step, step, 1e-12 * step);
    assert_close(s.n_steps * s.step, s.end, 1e-12 * end);
}

TEST(test_chart_scale_has_round_steps) {
    check_scale(1, 1, 0.2);
    check_scale(17.4, 20, 5);
    check_scale(8, 8, 1);
    check_scale(8.1, 10, 2);
    check_scale(40, 40, 5);
    check_scale(3e-7, 3e-7, 5e-8);
    check_scale(1e12, 1e12, 2e11);
}

TEST(test_chart_scale_holds_the_largest_in_few_steps) {
    for (double most = 1e-9; most < 1e15; most *= 1.37) {
        struct chart_scale s = chart_scale_of(most);
        assert_true(s.end >= most * (1 - 1e-9) && s.end - s.step < most * (1 + 1e-9));
        assert_true(s.n_steps >= 1 && s.n_steps <= CHART_MOST_TICKS);
    }
}

TEST(test_chart_scale_of_nothing_is_still_an_axis) {
    const double nothing[] = {0, -3, NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 5; i++) check_scale(nothing[i], 1, 0.2);
    assert_true(isfinite(chart_scale_of(DBL_MIN / 4).end) && chart_scale_of(DBL_MIN / 4).end > 0);
    struct chart_scale s = chart_scale_of(10);
    assert_true(chart_scale_at(&s, NAN) == 0 && chart_scale_at(&s, -1) == 0 && chart_scale_at(&s, INFINITY) == 0);
    assert_close(chart_scale_at(&s, 5), 0.5, 1e-12);
}

static void check_number(double value, const char *expected) {
    char text[CHART_NUMBER_BYTES];
    assert_string_equal(chart_number(value, text), expected);
}

TEST(test_chart_numbers_are_short_and_without_exponents) {
    check_number(0, "0");
    check_number(1234.4, "1234");
    check_number(99.96, "100");
    check_number(12.34, "12.3");
    check_number(0.00123, "0.00123");
    check_number(123456, "123456");
    check_number(NAN, "not known");
    check_number(INFINITY, "not known");
}

TEST(test_chart_colours_differ) {
    for (int i = 0; i < N_CHART_COLOURS; i++)
        for (int j = 0; j < i; j++) assert_string_not_equal(chart_colour(i), chart_colour(j));
}

/* ---- text ---- */
static char *written(void (*write)(FILE *, const void *), const void *self) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    write(f, self);
    fclose(f);
    return text;
}

static void write_text(FILE *f, const void *text) { markup_text(f, text); }
static void write_eight(FILE *f, const void *text) { markup_short(f, text, 8); }

static void check_written(void (*write)(FILE *, const void *), const char *text, const char *expected) {
    char *got = written(write, text);
    assert_string_equal(got, expected);
    free(got);
}

TEST(test_markup_escapes_and_replaces) {
    check_written(write_text, "<b a='1'>&\"", "&lt;b a=&#39;1&#39;&gt;&amp;&quot;");
    check_written(write_text, "\x01x\x1b[0m\t", "\xef\xbf\xbdx\xef\xbf\xbd[0m\t");
    check_written(write_text, "\xc3\xa4 \xf0\x9f\x98\x80", "\xc3\xa4 \xf0\x9f\x98\x80");
    check_written(write_text, "\xc3", "\xef\xbf\xbd");                                           /* broken off */
    check_written(write_text, "\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd");                           /* an overlong < */
    check_written(write_text, "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");           /* a surrogate */
    /* beyond Unicode */
    check_written(write_text, "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    /* no character of XML */
    check_written(write_text, "\xef\xbf\xbf", "\xef\xbf\xbd");
}

TEST(test_markup_cuts_between_characters) {
    check_written(write_eight, "12345678", "12345678");
    check_written(write_eight, "123456789", "12345...");
    check_written(write_eight, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4<\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4",
                  "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4&lt;...");
    assert_int_equal(markup_length("\xc3\xa4\xff" "b"), 3);
}

TEST(test_markup_plain_is_utf8_without_entities) {
    char *x = markup_plain("<\xc3\xa4\xc3&\x01");
    assert_string_equal(x, "<\xc3\xa4\xef\xbf\xbd&\xef\xbf\xbd");
    free(x);
}

/* ---- pictures ---- */
static void write_memory(FILE *f, const void *chart) { memory_chart_svg(chart, "memory <1>", f); }

static int count(const char *text, const char *words) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) n++;
    return n;
}

TEST(test_chart_areas_stand_on_each_other) {
    enum { MIB = 1 << 20 };
    int row[] = {0, 1, 3};
    int64_t alive[][N_ROLES] = {{[ROLE_PARAM] = MIB, [ROLE_GRAD] = MIB}, {[ROLE_PARAM] = 2 * MIB},
                                {[ROLE_PARAM] = 3 * MIB, [ROLE_GRAD] = MIB}};
    struct memory_mark marks[] = {{0, "F0"}, {3, "B0"}};
    char *text = written(write_memory, &(struct memory_chart){.n_rows = 4, .n_points = 3, .n_marks = 2, .row = row,
                                                              .alive = alive, .marks = marks, .planned = 9 * MIB / 2});
    /* the axis goes to 5; the plot is 250 high under a top of 38 + 22 + 18: 1 lies at 278, 2 at 228, 3 at 178, 4 at
     * 128 */
    assert_non_null(strstr(text, "d=\"M 74.0 278.0 266.5 278.0 266.5 228.0 651.5 228.0 651.5 178.0 844.0 178.0"));
    assert_non_null(
        strstr(text,
               "d=\"M 74.0 228.0 266.5 228.0 266.5 228.0 651.5 228.0 651.5 128.0 844.0 128.0 844.0 178.0 651.5 178.0"));
    assert_int_equal(count(text, ">F0<") + count(text, ">B0<") + count(text, ">planned peaks of all roles"), 3);
    assert_int_equal(count(text, ">memory &lt;1&gt;<"), 2);
    assert_int_equal(count(text, "nan"), 0);
    free(text);
}

TEST(test_chart_of_no_rows_is_a_picture) {
    char *text = written(write_memory, &(struct memory_chart){.n_rows = 0});
    assert_int_equal(count(text, "</svg>"), 1);
    assert_int_equal(count(text, "nan") + count(text, "inf"), 0);
    free(text);
}

/* 770 pixels, a line each three: a picture of many marks is no larger than one of some. */
TEST(test_chart_areas_leave_out_marks_that_stand_too_close) {
    enum { MANY = 100000 };
    int row[] = {0};
    int64_t alive[][N_ROLES] = {{[ROLE_PARAM] = 1 << 20, [ROLE_GRAD] = 1 << 20}};
    struct memory_mark *marks = calloc(MANY, sizeof *marks);
    assert_non_null(marks);
    for (int i = 0; i < MANY; i++) marks[i] = (struct memory_mark){i, "F"};
    struct memory_chart c = {.n_rows = MANY, .n_points = 1, .n_marks = MANY, .row = row, .alive = alive,
                             .marks = marks};
    char *text = written(write_memory, &c);
    assert_in_range(count(text, "#00000040"), 250, 257);
    free(text);
    c.n_rows = c.n_marks = 20;
    text = written(write_memory, &c);
    assert_int_equal(count(text, "#00000040"), 20);
    assert_int_equal(count(text, ">F<"), 20);
    free(text);
    free(marks);
}

/* ---- schedules: the pictures that open their files are what their tables are ---- */
/* All of a file, to be freed. */
static char *text_of(const char *path) {
    FILE *f = fopen(path, "r");
    size_t room = 1 << 16;
    char *text = calloc(room + 1, 1);
    assert_true(f && text && fread(text, 1, room, f) < room);
    fclose(f);
    return text;
}

/* Are all lines "stage  0  F0 ..." of the drawing in the file, as " * 0  F0 ..."? */
static bool shows(const char *file, char *drawing) {
    int n = 0;
    for (char *line = strtok(drawing, "\n"); line; line = strtok(NULL, "\n")) {
        char wanted[256];
        if (strncmp(line, "stage  ", 7) != 0) continue;
        snprintf(wanted, sizeof wanted, "\n * %.200s\n", line + 7);
        if (!strstr(file, wanted)) return false;
        n++;
    }
    return n == 4 || n == 8;                                         /* without a flush: and the versions */
}

TEST(test_every_schedule_opens_with_its_table) {
    static const char *const paths[] = {"pp/pp_schedule.c", "pp/pp_naive.c", "pp/pp_breadth_first.c",
                                        "pp/pp_zero_bubble.c", "pp/pp_zb_2p.c", "pp/pp_vee.c", "pp/pp_mirror.c",
                                        "pp/pp_blocks.c", "pp/pp_async.c"};
    for (int k = 0; pp_schedule_at(k); k++) {
        struct schedule_chart c = {.row = pp_schedule_at(k), .n_stages = 4, .time = {1, 1, 1}};
        char *drawing = NULL;
        size_t bytes;
        bool found = false;
        c.n_chunks = c.row->chunked ? 2 : 1;
        c.n_microbatches = c.row->endless ? 4 : 8;
        assert_ok(schedule_chart_make(&c));
        for (size_t i = 0; i < sizeof paths / sizeof *paths && !found; i++) {
            FILE *f = open_memstream(&drawing, &bytes);
            schedule_chart_text(&c, f);
            fclose(f);
            char *file = text_of(paths[i]);
            found = shows(file, drawing);
            free(file);
            free(drawing);
        }
        if (!found) fail_msg("%s: no file of pp/ shows its table", c.row->name);
        schedule_chart_fini(&c);
    }
}

TESTS(unit_test(test_every_schedule_opens_with_its_table), unit_test(test_chart_scale_has_round_steps),
      unit_test(test_chart_scale_holds_the_largest_in_few_steps),
      unit_test(test_chart_scale_of_nothing_is_still_an_axis),
      unit_test(test_chart_numbers_are_short_and_without_exponents), unit_test(test_chart_colours_differ),
      unit_test(test_markup_escapes_and_replaces), unit_test(test_markup_cuts_between_characters),
      unit_test(test_markup_plain_is_utf8_without_entities), unit_test(test_chart_areas_stand_on_each_other),
      unit_test(test_chart_of_no_rows_is_a_picture),
      unit_test(test_chart_areas_leave_out_marks_that_stand_too_close))
