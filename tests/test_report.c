/* ranks: 1  device: cpu
 *
 * What a grader is told, and that nobody finds the token where it was. */
#include "tests/report.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *content(const char *path) {
    static char text[512];
    FILE *file = fopen(path, "r");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
    if (file) fclose(file);
    return text;
}

static void test_report_takes_the_token_and_ends_with_it(void **state) {
    (void)state;
    if (getenv("TEST_REPORT")) skip();      /* this very run has a report, and there is only one */
    const char *path = test_path("report");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a b7\n", file);
    fclose(file);
    setenv("TEST_REPORT", path, 1);
    bool opened = report_open();
    unsetenv("TEST_REPORT");
    assert_true(opened);
    assert_string_equal(content(path), "");
    report_begin("x/test_x.c", "test_a");
    report_verdict(FAILED, "x/test_x.c", "test_a");
    report_begin("x/test_x.c", "test_b");
    assert_string_equal(content(path), "run x/test_x.c test_a\nfail x/test_x.c test_a\nrun x/test_x.c test_b\n");
    report_verdict(SKIPPED, "x/test_x.c", "test_b");
    report_end();
    assert_non_null(strstr(content(path), "test_b\nskip x/test_x.c test_b\nend a b7\n"));
    remove(path);
}

static void test_report_of_no_file_is_refused(void **state) {
    (void)state;
    if (getenv("TEST_REPORT")) skip();
    setenv("TEST_REPORT", "/tmp/there/is/no/such/file", 1);
    bool opened = report_open();
    unsetenv("TEST_REPORT");
    assert_false(opened);
}

TESTS(unit_test(test_report_takes_the_token_and_ends_with_it), unit_test(test_report_of_no_file_is_refused))
