/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* sched_getaffinity */
#include "driver/setup.h"
#include "lib/comm/comm.h"
#include "tests/test.h"
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_binding_is_the_affinity_mask(void **state) {
    (void)state;
    cpu_set_t mask, one;
    char words[64];
    int first = 0, bound;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    int allowed = setup_allowed_cores();
    while (!CPU_ISSET(first, &mask)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    bound = setup_allowed_cores();
    snprintf(words, sizeof words, "%s", setup_binding());
    assert_int_equal(sched_setaffinity(0, sizeof mask, &mask), 0);
    assert_int_equal(allowed, CPU_COUNT(&mask));
    assert_int_equal(bound, 1);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) assert_non_null(strstr(words, "bound to 1 of "));
    else assert_string_equal(words, "free on 1 core");
}

/* As many threads as the plan says; else the cores that it may use divided by its ranks, and at least one. */
static void test_threads_are_cores_by_ranks_unless_told(void **state) {
    (void)state;
    struct plan plan = {.threads = 3};
    int before = omp_get_max_threads(), cores = (int)comm_local_cores();
    char *variable = getenv("OMP_NUM_THREADS"), *kept = variable ? strdup(variable) : NULL;
    unsetenv("OMP_NUM_THREADS");
    int told = setup_threads(&plan, 1), used = omp_get_max_threads();
    plan.threads = 0;
    int alone = setup_threads(&plan, 1), many = setup_threads(&plan, 1000000);
    if (kept) setenv("OMP_NUM_THREADS", kept, 1);
    free(kept);
    omp_set_num_threads(before);
    assert_true(told == 3 && used == 3);
    assert_int_equal(alone, cores);
    assert_int_equal(many, 1);
}

TESTS(unit_test(test_binding_is_the_affinity_mask), unit_test(test_threads_are_cores_by_ranks_unless_told))
