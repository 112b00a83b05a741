/* ranks: 1  device: cpu */
#include "launch/goodput.h"
#include "launch/stop.h"
#include "tests/test.h"
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Run `work` in a child process with one thread, because a rank has one when it calls stop_listen. @return the child's
 * exit code, or 128 + signal */
static int outcome_of(int (*work)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        omp_set_num_threads(1);
        _exit(work());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int ask_and_see(void) {
    signal(SIGUSR1, SIG_IGN); /* a parent may leave SIGUSR1 so */
    stop_listen();
    if (stop_was_asked()) return 1;
    raise(SIGUSR1);
    raise(SIGUSR1);
    if (!stop_was_asked()) return 2;
    return stop_was_asked() ? 0 : 3; /* the answer stays true */
}

TEST(test_a_request_is_kept) {
    assert_int_equal(outcome_of(ask_and_see), 0);
}

/* SIGUSR1 has no handler (stop.h says why), and is blocked in threads that start later. */
static void *is_blocked_here(void *blocked) {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    *(int *)blocked = sigismember(&set, SIGUSR1);
    return NULL;
}

static int listen_without_a_handler(void) {
    struct sigaction action;
    pthread_t other;
    int here = 0, there = 0;
    signal(SIGUSR1, SIG_IGN);
    stop_listen();
    is_blocked_here(&here);
    if (pthread_create(&other, NULL, is_blocked_here, &there) != 0) return 1;
    pthread_join(other, NULL);
    if (sigaction(SIGUSR1, NULL, &action) != 0 || action.sa_handler != SIG_DFL) return 2;
    return here == 1 && there == 1 ? 0 : 3;
}

TEST(test_no_handler_runs) {
    assert_int_equal(outcome_of(listen_without_a_handler), 0);
}

TEST(test_interval_in_steps) {
    assert_int_equal(goodput_interval_steps(0.5, 3600, 0.25), 240);
    assert_int_equal(goodput_interval_steps(0.5, 3600, 100), 1); /* at least one step */
    assert_int_equal(goodput_interval_steps(0, 3600, 0.25), 0);
    assert_int_equal(goodput_interval_steps(0.5, 3600, 0), 0);
    char text[256];
    goodput_advice(0.5, 3600, 0.25, text, sizeof text);
    assert_non_null(strstr(text, "save every 60.0 s: --save-every 240"));
    goodput_advice(0.5, 0, 0.25, text, sizeof text);
    assert_string_equal(text, "");
}

static const char *file_of(const char *text) {
    const char *path = test_path("rows.jsonl");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

/* Steps 1 to 4, then a failure; the next attempt continues from the checkpoint of step 2 and repeats steps 3 and 4. The
 * killed attempt's half line is no row. */
#define ATTEMPTS                                                                                                       \
    "{\"step\":1,\"loss\":3,\"step_ms\":1000}\n{\"step\":2,\"loss\":3,\"step_ms\":1000}\n"                             \
    "{\"step\":2,\"save_ms\":700,\"stall_ms\":500,\"save_failures\":0}\n{\"step\":3,\"step_ms\":4000}\n"               \
    "{\"step\":4,\"step_ms\":5000}\n{\"step\":5,\"st\n{\"step\":3,\"step_ms\":1000}\n{\"step\":3,\"val_loss\":2}\n"    \
    "{\"step\":4,\"step_ms\":1000}\n{\"step\":4,\"stall_ms\":100}\n{\"step\":5,\"step_ms\":1000}\n"

TEST(test_rows_count_each_step_once) {
    struct goodput_rows r;
    assert_ok(goodput_read(file_of(ATTEMPTS), 0, INT64_MAX, &r));
    assert_int_equal(r.n_steps, 5);
    assert_close(r.steps_s, 5, 1e-12);
    assert_int_equal(r.n_undone, 2);
    assert_close(r.undone_s, 9, 1e-12);
    assert_int_equal(r.n_saves, 2);
    assert_close(r.stalls_s, 0.6, 1e-12);
}

TEST(test_rows_after_the_last_checkpoint_are_lost) {
    struct goodput_rows r;
    assert_ok(goodput_read(file_of(ATTEMPTS), 0, 4, &r));
    assert_int_equal(r.n_steps, 4);
    assert_close(r.steps_s, 4, 1e-12);
    assert_int_equal(r.n_undone, 3);
    assert_ok(
        goodput_read(file_of(ATTEMPTS), (int64_t)strlen("{\"step\":1,\"loss\":3,\"step_ms\":1000}\n"), INT64_MAX, &r));
    assert_int_equal(r.n_steps, 4); /* the first row was there before the job */
    assert_fails(goodput_read("/nowhere/rows", 0, 4, &r), E_DATA, "/nowhere/rows", "No such file");
}

/* A pipe may have no writer, and a device may have no end, so the read would not return. */
TEST(test_metrics_that_are_no_file_are_not_read) {
    struct goodput_rows rows;
    const char *pipe = test_path("goodput-pipe");
    assert_int_equal(mkfifo(pipe, 0666), 0);
    alarm(20);
    assert_fails(goodput_read(pipe, 0, 9, &rows), E_DATA, "goodput-pipe", "not a regular file");
    assert_fails(goodput_read("/dev/full", 0, 9, &rows), E_DATA, "/dev/full", "not a regular file");
    alarm(0);
}

TESTS(unit_test(test_a_request_is_kept), unit_test(test_no_handler_runs),
      unit_test(test_metrics_that_are_no_file_are_not_read), unit_test(test_interval_in_steps),
      unit_test(test_rows_count_each_step_once), unit_test(test_rows_after_the_last_checkpoint_are_lost))
