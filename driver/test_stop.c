/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "driver/stop.h"
#include "lib/ops/gemm.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a process of its own: it has one thread, as a rank has when it begins to listen. @return its exit code, or 128 + signal */
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
    signal(SIGUSR1, SIG_IGN); /* as a parent may have left it */
    stop_listen();
    if (stop_was_asked()) return 1;
    raise(SIGUSR1);
    raise(SIGUSR1);
    if (!stop_was_asked()) return 2;
    return stop_was_asked() ? 0 : 3; /* it stays so */
}

static void test_a_request_is_kept(void **state) {
    (void)state;
    assert_int_equal(outcome_of(ask_and_see), 0);
}

static void *ask_all_the_time(void *done) {
    while (!__atomic_load_n((int *)done, __ATOMIC_RELAXED)) {
        kill(getpid(), SIGUSR1);
        usleep(20);
    }
    return NULL;
}

/* Sizes that change, and matrices of their own: malloc then looks at the lists that a frame in the heap (stop.h) would have broken. */
static int multiply(int i) {
    struct gemm g = {.m = 16 + i * 37 % 200, .n = 16 + i * 53 % 300, .k = 16 + i * 71 % 200, .alpha = 1, .ab_dtype = FP32, .c_dtype = FP32};
    float *a = calloc((size_t)(g.m * g.k), sizeof *a), *b = calloc((size_t)(g.k * g.n), sizeof *b), *c = calloc((size_t)(g.m * g.n), sizeof *c);
    bool ok = a && b && c && gemm_run(&g, a, b, NULL, c, NULL) == OK;
    free(a);
    free(b);
    free(c);
    return ok ? 0 : 1;
}

static int multiply_while_asked(void) {
    enum { TIMES = 4000 };
    int done = 0, failed = 0;
    pthread_t other;
    stop_listen();
    if (pthread_create(&other, NULL, ask_all_the_time, &done) != 0) return 1;
    for (int i = 0; i < TIMES && !failed; i++) failed = multiply(i);
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    return failed ? 2 : stop_was_asked() ? 0 : 3;
}

static void test_requests_do_not_disturb_products(void **state) {
    (void)state;
    assert_int_equal(outcome_of(multiply_while_asked), 0);
}

TESTS(unit_test(test_a_request_is_kept), unit_test(test_requests_do_not_disturb_products))
