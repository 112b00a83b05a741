/* build-simt/trivium-tests-check --barriers [filter]: no barrier of a kernel is there for nothing, and no missing one
 * goes unnoticed. Every __syncthreads and __syncwarp that a test passes (tests/simt numbers them: one for each kernel
 * that comes to it) is taken away in turn, and the tests that pass it are run again until one fails or tests/simt
 * reports something: threads in forward order first, then in reverse. tests/barriers.c. */
#pragma once

#include "tests/test.h"

/** Prints a line for each barrier that no test misses, then "N passed, N failed, N skipped". Returns main's code. */
int barriers_run(const char *filter);

/* ---- what runner.c does for it ---- */
enum verdict { PASSED, SKIPPED, FAILED }; /* in the order of a maximum: one rank's failure outweighs all else */
/** Run one test on this rank alone. */
enum verdict test_run_here(const char *file, const struct CMUnitTest *);
/** Would the runner run this test here? */
bool test_selected(const struct test_suite *, const char *name, const char *filter);
