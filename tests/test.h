/* Every test file includes this one. A test file looks like this:
 *
 *   /[*] ranks: 1 2 4  device: cpu [*]/              the first line: the world sizes and devices on which the runner
 *                                                    runs it. "any": it runs on test_device(), whichever that is;
 *                                                    "threads: 1" after it: for a suite of whole small models, where
 *                                                    more threads take longer
 *   #include "tests/test.h"
 *   TEST(test_sum_is_exact) { ... assert_close(...); }
 *   TESTS(unit_test(test_sum_is_exact))
 *
 * In tests of more than one rank never assert between collectives: an assert jumps out and strands the peers. Compute,
 * agree across ranks (agree_max, agree_all), then assert. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>

#include "lib/device/device.h"

/** A test's head. A test that reads its setup function's result has CMocka's own: static void NAME(void **state). */
#define TEST(name) static void name(void **cmocka_state __attribute__((unused)))

#undef unit_test /* CMocka's own is deprecated, and of another type */
#define unit_test(function) cmocka_unit_test(function)

struct test_suite { const char *file; const struct CMUnitTest *tests; size_t n; struct test_suite *next; };
void test_suite_register(struct test_suite *);
extern struct test_suite *test_suites; /* all linked suites, by file name; the runner walks the list */

#define TESTS(...)                                                                                                     \
    static const struct CMUnitTest suite_tests_[] = {__VA_ARGS__};                                                     \
    static struct test_suite suite_ = {__FILE__, suite_tests_, sizeof suite_tests_ / sizeof *suite_tests_, NULL};      \
    __attribute__((constructor)) static void suite_register_(void) { test_suite_register(&suite_); }

/* CMocka's own print hexadecimal without a name, or one word. These print decimals, and what was asked. */
#undef assert_int_equal
#undef assert_in_range
#undef assert_true
#undef assert_false
#define assert_int_equal(value, right)                                                                                 \
    expect_number_(#value " is", (long long)(value), " not", (long long)(right), __FILE__, __LINE__)
#define assert_in_range(value, low, high)                                                                              \
    assert_in_range_(#value, (long long)(value), (long long)(low), (long long)(high), __FILE__, __LINE__)
#define assert_true(condition) assert_holds_((condition) ? true : false, "not true: " #condition, __FILE__, __LINE__)
#define assert_false(condition) assert_holds_((condition) ? false : true, "true: " #condition, __FILE__, __LINE__)
/** A whole number with a name for its reader: "parameters of gpt2-124m: you say 124438272, right is 124439808". */
#define expect_number(name, value, right)                                                                              \
    expect_number_(name ": you say", (long long)(value), " right is", (long long)(right), __FILE__, __LINE__)
void expect_number_(const char *name, long long value, const char *than, long long right, const char *file, int line);
void assert_in_range_(const char *text, long long value, long long low, long long high, const char *file, int line);
void assert_holds_(bool holds, const char *text, const char *file, int line);

/** |value - reference| <= bound, NaN never; prints all three otherwise. CMocka 1.1.5 has no double assertion. */
#define assert_close(value, reference, bound) assert_close_((value), (reference), (bound), #value, __FILE__, __LINE__)
void assert_close_(double value, double reference, double bound, const char *text, const char *file, int line);

/** The call failed with this status, and its line contains each of the words (a value, a limit, a remedy). The
 *  recorded line is cleared. assert_fails(f(x), E_CONFIG, "tp=3", "heads=16") */
#define assert_fails(call, code, ...)                                                                                  \
    assert_fails_((call), (code), (const char *const[]){__VA_ARGS__, NULL}, #call, __FILE__, __LINE__)
void assert_fails_(int status, int code, const char *const *words, const char *text, const char *file, int line);

/** The call succeeded; if not, its recorded line is printed. */
#define assert_ok(call) assert_ok_((call), #call, __FILE__, __LINE__)
void assert_ok_(int status, const char *text, const char *file, int line);

/** The ranks have lost each other: print this, and this rank's part of the reason; end the job. */
void test_give_up(const char *what) __attribute__((noreturn));

/** A block of exactly this size: an access right behind its end crashes. It is there until the next test begins. */
void *test_block(size_t bytes);
/** The same with these bytes in it; a write to it crashes. */
const void *test_block_of(const void *bytes, size_t n);
/** Unmap the blocks of the test before: the runner does so. */
void test_blocks_clear(void);
/** A whole number from..to: the next of this test's. A grader sets another TEST_SEED for each run. All ranks get the
 *  same numbers if they draw equally often. */
int64_t test_drawn(int64_t from, int64_t to);

/** Largest value over all ranks of the world (NaN wins); are all ranks' values true? @collective{world} */
double agree_max(double);
bool agree_all(bool);

/** From here to test_stderr_text, keep this process's writes to file descriptor 2 instead of showing them. */
void test_stderr_keep(void);
/** @return the kept text; ends the keeping. Static storage. */
const char *test_stderr_text(void);

/** The device of the tests: DEVICE=cpu (default), or cuda and simt, which are both the CUDA device: in a
 *  build for a GPU, or one with tests/simt. Fails the test if it cannot be opened. */
const struct device *test_device(void);

/** A path in a directory that is made for this test process and removed at its end: "/tmp/trivium-test-PID/name".
 *  Static storage, 8 in turn. Each suite finds it empty. */
const char *test_path(const char *name);
/** Remove the directory's files: the runner does so before each suite. */
void test_paths_clear(void);
/** Number of these removals, the same on all ranks: files made before the last one are gone. */
int test_paths_clearings(void);

/** Do both files exist, with the same bytes? */
bool test_same_files(const char *a, const char *b);
