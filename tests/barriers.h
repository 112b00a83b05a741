/* build-simt/trivium-tests-check --barriers [filter]: every barrier of a kernel is needed, and the tests notice every
 * missing one. Each __syncthreads and __syncwarp that a test passes (tests/simt numbers them: one for each kernel
 * that passes it) is turned off in turn. The tests that pass it run again until one fails or tests/simt
 * reports something: threads in forward order first, then in reverse. tests/barriers.c. */
#pragma once

#include "tests/test.h"

/** Prints a line for each barrier that no test misses, then "N passed, N failed, N skipped". Returns main's code. */
int barriers_run(const char *filter);

/* ---- functions of runner.c for barriers.c ---- */
enum verdict { PASSED, SKIPPED, FAILED }; /* in the order of a maximum: one rank's failure outweighs the rest */
/** Run one test on this rank alone. */
enum verdict test_run_here(const char *file, const struct CMUnitTest *);
/** Would the runner run this test here? */
bool test_selected(const struct test_suite *, const char *name, const char *filter);
