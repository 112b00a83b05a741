/* ranks: 1  device: cpu
 *
 * The grader's report, and that the token is gone from the file. */
#include "tests/report.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TEN(x) x x x x x x x x x x
#define TOKEN TEN("a b7c4d8e9f0123")      /* 150 characters */

static const char *content(const char *path) {
    static char text[1024];
    FILE *file = fopen(path, "r");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
    if (file) fclose(file);
    return text;
}

TEST(test_report_takes_the_token_and_seals_all_lines_with_it) {
    if (getenv("TEST_REPORT")) skip();      /* this very run has a report, and there is only one */
    const char *path = test_path("report");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(TOKEN "\n", file);
    fclose(file);
    setenv("TEST_REPORT", path, 1);
    bool opened = report_open();
    unsetenv("TEST_REPORT");
    assert_true(opened);
    assert_string_equal(content(path), "");
    report_begin("x/test_x.c", "test_a");
    report_verdict(FAILED, "x/test_x.c", "test_a");
    report_begin("x/test_x.c", "test_b");
    static const char content_before[] = "run x/test_x.c test_a\nfail x/test_x.c test_a\nrun x/test_x.c test_b\n";
    assert_string_equal(content(path), content_before);
    report_verdict(SKIPPED, "x/test_x.c", "test_b");
    char expected[1024];
    size_t n = (size_t)snprintf(expected, sizeof expected, "%sskip x/test_x.c test_b\n", content_before);
    report_end();
    snprintf(expected + n, sizeof expected - n, "end %016llx\n",
             (unsigned long long)XXH3_64bits_withSecret(expected, n, TOKEN, strlen(TOKEN)));
    assert_string_equal(content(path), expected);
    remove(path);
}

TEST(test_report_of_no_file_is_refused) {
    if (getenv("TEST_REPORT")) skip();
    setenv("TEST_REPORT", "/tmp/there/is/no/such/file", 1);
    bool opened = report_open();
    setenv("TEST_REPORT", "/dev/null", 1);                    /* no token in it */
    bool empty = report_open();
    unsetenv("TEST_REPORT");
    assert_false(opened);
    assert_false(empty);
}

TESTS(unit_test(test_report_takes_the_token_and_seals_all_lines_with_it), unit_test(test_report_of_no_file_is_refused))
