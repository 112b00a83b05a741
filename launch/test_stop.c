/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "launch/stop.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
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

TESTS(unit_test(test_a_request_is_kept), unit_test(test_no_handler_runs))
