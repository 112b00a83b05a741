/* ranks: 1  device: cpu */
#include "lib/base/status.h"
#include "lib/base/log.h"
#include "tests/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The test process has an identity already. A test that changes the identity restores it at its end. */
static char identity[128];
static void borrow_identity(const char *text) {
    snprintf(identity, sizeof identity, "%s", status_identity_text());
    status_identity(text);
}
static void return_identity(void) { status_identity(identity); }

TEST(test_status_has_a_name_and_an_exit_code_each) {
    for (int code = 0; code < N_STATUS; code++) {
        const char *name = status_name((enum status)code);
        assert_true(code == OK ? strcmp(name, "OK") == 0 : strncmp(name, "E_", 2) == 0);
        bool bad_request = code == E_USAGE || code == E_CONFIG || code == E_DATA || code == E_FORMAT;
        assert_int_equal(status_exit_code((enum status)code), code == OK ? 0 : bad_request ? 2 : 1);
    }
    assert_string_equal(status_name(E_CONFIG), "E_CONFIG");
    assert_string_equal(status_name((enum status)99), "E_UNKNOWN");
}

static enum status refuse_tp(int tp, int heads) {
    return FAIL(E_CONFIG, "tp=%d does not divide heads=%d; use 1, 2, 4, 8 or 16", tp, heads);
}

static enum status pass_on(int tp) {
    TRY(refuse_tp(tp, 16));
    return OK;
}

static enum status pass_on_done(int tp, bool *released) {
    enum status status = OK;
    TRY_DONE(pass_on(tp));
done:
    *released = true;
    return status;
}

TEST(test_status_line_names_rank_place_value_and_remedy) {
    borrow_identity("rank 5/8 pp0 dp1 tp1 @node03");
    assert_int_equal(refuse_tp(3, 16), E_CONFIG);
    return_identity();
    assert_non_null(strstr(status_text(), "[rank 5/8 pp0 dp1 tp1 @node03] E_CONFIG test_status.c:"));
    assert_non_null(strstr(status_text(), " refuse_tp: tp=3 does not divide heads=16; use 1, 2, 4, 8 or 16"));
    assert_string_equal(status_message(), "tp=3 does not divide heads=16; use 1, 2, 4, 8 or 16");
    status_clear();
    assert_string_equal(status_text(), "");
}

TEST(test_status_line_has_no_bracket_without_identity) {
    borrow_identity("");
    refuse_tp(3, 16);
    return_identity();
    assert_int_equal(strncmp(status_text(), "E_CONFIG test_status.c:", 23), 0);
    status_clear();
}

TEST(test_status_identity_keeps_127_bytes) {
    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    borrow_identity(longer);
    size_t kept_bytes = strlen(status_identity_text());
    return_identity();
    assert_int_equal(kept_bytes, 127);
}

TEST(test_status_stays_one_line_whatever_the_value) {
    char *value = malloc(20000);
    memset(value, 'v', 19999);
    value[19999] = 0;
    value[3] = '\n', value[5] = '\r', value[7] = '\033', value[9] = 127;
    FAIL(E_DATA, "cannot read %s", value);
    free(value);
    assert_null(strpbrk(status_text(), "\r\n\033\177"));
    assert_non_null(strstr(status_text(), "cannot read vvv v v v vvv"));
    assert_true(strlen(status_text()) < 4096);
    status_clear();
}

TEST(test_status_may_quote_the_failure_before) {
    refuse_tp(3, 16);
    FAIL(E_INTERNAL, "the default is wrong: %s", status_text());
    assert_non_null(strstr(status_text(), "the default is wrong: "));
    assert_non_null(strstr(status_text(), "tp=3 does not divide heads=16"));
    status_clear();
}

TEST(test_try_passes_the_code_on_and_releases) {
    bool released = false;
    assert_int_equal(pass_on_done(3, &released), E_CONFIG);
    assert_true(released);
    assert_non_null(strstr(status_text(), "refuse_tp"));
    status_clear();
}

TEST(test_report_writes_once_and_forgets) {
    unsetenv("TRIVIUM_FRAMES");
    pass_on(3);
    test_stderr_keep();
    status_report();
    status_report();
    const char *text = test_stderr_text();
    assert_non_null(strstr(text, "tp=3 does not divide"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_string_equal(status_text(), "");
}

TEST(test_report_shows_frames_when_asked) {
    bool released;
    setenv("TRIVIUM_FRAMES", "1", 1);
    pass_on_done(3, &released);
    test_stderr_keep();
    status_report();
    const char *text = test_stderr_text();
    const char *inner = strstr(text, " pass_on\n"), *outer = strstr(text, " pass_on_done\n");
    unsetenv("TRIVIUM_FRAMES");
    assert_true(inner && outer && inner < outer);
}

static void *fail_in_thread(void *unused) {
    (void)unused;
    FAIL(E_IO, "the other thread's failure");
    return NULL;
}

TEST(test_status_is_recorded_per_thread) {
    pthread_t thread;
    refuse_tp(3, 16);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    pthread_join(thread, NULL);
    assert_non_null(strstr(status_text(), "tp=3"));
    status_clear();
}

TEST(test_log_drops_lines_above_its_level_and_names_the_speaker) {
    enum log_level before = log_get_level();
    borrow_identity("rank 1/2 @here");
    log_set_level(LOG_INFO);
    test_stderr_keep();
    log_info("step %d", 7);
    log_warn("slow");
    log_debug("not heard");
    log_set_level(LOG_QUIET);
    log_warn("not heard either");
    const char *text = test_stderr_text();
    log_set_level(before);
    return_identity();
    assert_string_equal(text, "step 7\n[rank 1/2 @here] warning: slow\n");
}

TESTS(unit_test(test_status_has_a_name_and_an_exit_code_each),
      unit_test(test_status_line_names_rank_place_value_and_remedy),
      unit_test(test_status_line_has_no_bracket_without_identity), unit_test(test_status_identity_keeps_127_bytes),
      unit_test(test_status_stays_one_line_whatever_the_value), unit_test(test_status_may_quote_the_failure_before),
      unit_test(test_try_passes_the_code_on_and_releases), unit_test(test_report_writes_once_and_forgets),
      unit_test(test_report_shows_frames_when_asked), unit_test(test_status_is_recorded_per_thread),
      unit_test(test_log_drops_lines_above_its_level_and_names_the_speaker))
