/* ranks: 1  device: cpu */
/* Escaping, and the schedules in letters. */
#define _GNU_SOURCE /* open_memstream */
#include "tests/test.h"

#include "driver/chart/chart.h"
#include "driver/chart/schedule_chart.h"
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */
static char *written(void (*write)(FILE *, const void *), const void *self) {
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    write(f, self);
    fclose(f);
    return text;
}

static void write_text(FILE *f, const void *text) { markup_short(f, text, 1000); }
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
    check_written(write_eight, "\xc3\xa4\xff" "345678", "\xc3\xa4\xef\xbf\xbd" "345678");
}

TEST(test_markup_plain_is_utf8_without_entities) {
    char *x = markup_plain("<\xc3\xa4\xc3&\x01");
    assert_string_equal(x, "<\xc3\xa4\xef\xbf\xbd&\xef\xbf\xbd");
    free(x);
}

/* ---- schedules: the picture at the top of a schedule's file equals the drawn table ---- */
/* The text of a file; the caller frees it. */
static char *text_of(const char *path) {
    FILE *f = fopen(path, "r");
    size_t room = 1 << 16;
    char *text = calloc(room + 1, 1);
    assert_true(f && text && fread(text, 1, room, f) < room);
    fclose(f);
    return text;
}

/* Does the file have each line "stage  0  F0 ..." of the drawing, as " * 0  F0 ..."? */
static bool shows(const char *file, char *drawing) {
    int n = 0;
    for (char *line = strtok(drawing, "\n"); line; line = strtok(NULL, "\n")) {
        char wanted[256];
        if (strncmp(line, "stage  ", 7) != 0) continue;
        snprintf(wanted, sizeof wanted, "\n * %.200s\n", line + 7);
        if (!strstr(file, wanted)) return false;
        n++;
    }
    return n == 4 || n == 8;                                         /* 8: also versions, without a flush */
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

TESTS(unit_test(test_every_schedule_opens_with_its_table), unit_test(test_markup_escapes_and_replaces),
      unit_test(test_markup_cuts_between_characters), unit_test(test_markup_plain_is_utf8_without_entities))
