/* ranks: 1  device: cpu */
#include "driver/deadline.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output and exit of a process that hangs after `arm`. */
static int stand_still(void (*arm)(void), char *said, size_t size) {
    int text[2], status;
    assert_int_equal(pipe(text), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(text[1], STDERR_FILENO);
        arm();
        for (int s = 0; s < 30; s++) sleep(1);
        _exit(99);
    }
    close(text[1]);
    size_t n = 0;
    for (ssize_t got; n < size - 1 && (got = read(text[0], said + n, size - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    close(text[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void set_up(void) { deadline_set(0.5, "set-up"); }
static void lifted(void) {
    deadline_set(1, "set-up");
    deadline_lift();
    sleep(2);
    _exit(0);
}

TEST(test_deadline_says_one_line_and_ends) {
    char said[2048];
    assert_int_equal(stand_still(set_up, said, sizeof said), 1);
    assert_non_null(strstr(said, "E_TIMEOUT deadline.c:"));
    assert_non_null(strstr(said, "set-up did not end within 0.5 s"));
    assert_non_null(strstr(said, "--comm-timeout"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(stand_still(lifted, said, sizeof said), 0);
    assert_string_equal(said, "");
}

TESTS(unit_test(test_deadline_says_one_line_and_ends))
