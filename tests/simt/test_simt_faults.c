/* ranks: 1  device: simt */
/* Kernels with one mistake each (test_simt_faults.cu): the first report must say which kernel, which line, which block,
 * which threads. Races, bounds and reads before writes are only seen in the checked build (SIMT=check). */
#include "tests/simt/test_simt.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 128, SLACK = 64 };                                /* room after the 128 ints for wrong accesses */

/* Kind, kernel and what else the report must contain, in forward order; {line} is the marked line. */
static const struct expected { enum simt_fault fault; bool always; const char *kind, *kernel, *block,
                               *words[4]; } faults[] = {
    {RACE_SHARED, false, "data race", "race_shared", "(0,0,0)",
     {"thread 32 ", "thread 0 ", "wrote", "no __syncthreads"}},
    {RACE_WARP, false, "data race", "race_warp", "(0,0,0)", {"thread 1 ", "thread 0 ", "wrote", "no barrier between"}},
    {RACE_BLOCKS, false, "data race", "race_blocks", "(1,0,0)", {"thread 0 ", "thread 0 of block (0,0,0)", "no order"}},
    {RACE_ATOMIC, false, "data race", "race_atomic", "(0,0,0)", {"thread 32 ", "changed", "thread ", "global"}},
    {RACE_TENSOR, false, "data race", "race_tensor", "(0,0,0)", {"thread 0 ", "another lane", "no __syncwarp"}},
    {BEYOND_GLOBAL, false, "out of bounds", "beyond_global", "(1,0,0)", {"thread 63 ", "writes 4 bytes"}},
    {BEYOND_SHARED, false, "out of bounds", "beyond_shared", "(0,0,0)", {"thread 60 ", "shared array"}},
    {BEYOND_DYNAMIC, false, "out of bounds", "beyond_dynamic", "(0,0,0)",
     {"thread 60 ", "byte 240 of 240", "dynamic shared"}},
    {UNINITIALISED, false, "uninitialised shared", "uninitialised", "(0,0,0)",
     {"thread 63 ", "no thread of this block has written"}},
    {MISALIGNED, false, "misaligned", "misaligned", "(0,0,0)",
     {"thread 0 ", "reads 8 bytes", "4 bytes after a multiple of 8"}},
    {BARRIER_ELSEWHERE, true, "divergent barrier", "barrier_elsewhere", "(0,0,0)",
     {"thread 32 ", "thread 0 ", "another"}},
    {BARRIER_ENDED, true, "divergent barrier", "barrier_ended", "(0,0,0)",
     {"thread 41 ", "1 of the block's 64 threads have ended"}},
    {LANE_ENDED, true, "missing lanes", "lane_ended", "(0,0,0)", {"thread 4 has ended", "thread 31 waits"}},
    {LANE_UNNAMED, true, "missing lanes", "lane_unnamed", "(0,0,0)", {"thread 16 ", "own mask 0000ffff"}},
    {LANE_SOURCE, true, "missing lanes", "lane_source", "(0,0,0)", {"thread 8 ", "lane 16", "takes no part"}},
    {LANES_APART, true, "missing lanes", "lanes_apart", "(0,0,0)", {"thread 0 ", "thread 1 "}},
    {STUCK, true, "deadlock", "stuck", "(0,0,0)", {"thread 0 ", "thread 32 ", "given up"}},
    {TRAPPED, true, "trap", "trapped", "(0,0,0)", {"thread 9 ", "stops the launch"}},
};

static void must_contain(const char *report, const char *words) {
    if (!words || strstr(report, words)) return;
    print_error("\"%s\" is not in the report: %s\n", words, report);
    fail();
}

static void check_report(const struct expected *e, const char *report, int line) {
    char text[200];
    snprintf(text, sizeof text, "simt: %s", e->kind);
    must_contain(report, text);
    snprintf(text, sizeof text, " in %s (", e->kernel);
    must_contain(report, text);
    snprintf(text, sizeof text, "tests/simt/test_simt_faults.cu:%d", line);
    must_contain(report, text);
    snprintf(text, sizeof text, "block %s", e->block);
    must_contain(report, text);
    for (int i = 0; i < 4; i++) must_contain(report, e->words[i]);
}

/* Run a fault and keep its first report. Reports are then cleared, so that the runner does not count them. */
static int run_fault(enum simt_fault fault, char report[1500], int *n_reports) {
    void (*submit)(void *, void (*)(void *), void *, size_t) = simt_submit;
    int *global = aligned_alloc(256, (N + SLACK) * sizeof *global);
    memset(global, 0, (N + SLACK) * sizeof *global);
    simt_memory_allocated(global, N * sizeof *global);
    simt_submit = NULL;
    simt_reports_show(0);
    int line = simt_test_fault(fault, global);
    simt_submit = submit;
    snprintf(report, 1500, "%s", simt_report(0));
    *n_reports = simt_reports();
    simt_reports_clear();
    simt_reports_show(1);
    simt_take_error();
    simt_memory_freed(global);
    free(global);
    return line;
}

static void check_fault(const struct expected *e, enum simt_order order) {
    char report[1500];
    int n_reports, line;
    enum simt_order before = simt_get_order();
    simt_set_order(order);
    line = run_fault(e->fault, report, &n_reports);
    simt_set_order(before);
    bool seen = e->always || simt_checked();
    if (seen != (n_reports > 0)) {
        print_error("%s: %d reports\n", e->kernel, n_reports);
        fail();
    }
    if (seen && order == SIMT_FORWARD) check_report(e, report, line);
    else if (seen) must_contain(report, e->kernel);
}

static void check_faults(bool always, enum simt_order order) {
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (faults[i].always == always) check_fault(&faults[i], order);
}

TEST(test_every_fault_has_a_case) {
    for (int fault = 0; fault < FAULTS; fault++) assert_int_equal(faults[fault].fault, fault);
}
TEST(test_races_and_bounds_are_reported_when_checked) {
    check_faults(false, SIMT_FORWARD);
    check_faults(false, SIMT_REVERSE);
}
TEST(test_barriers_and_lanes_are_always_watched) {
    check_faults(true, SIMT_FORWARD);
    check_faults(true, SIMT_REVERSE);
}

TESTS(unit_test(test_every_fault_has_a_case), unit_test(test_races_and_bounds_are_reported_when_checked),
      unit_test(test_barriers_and_lanes_are_always_watched))
