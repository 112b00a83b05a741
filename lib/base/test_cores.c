/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* sched_setaffinity */
#include "lib/base/cores.h"
#include "tests/test.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/span.h"

static char root[64];

/* Write a file below root, and create its folders. */
static void write_file(const char *path, const char *text) {
    char full[256], command[300];
    snprintf(full, sizeof full, "%s/%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s)\"", full);
    assert_int_equal(system(command), 0);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
static int begin(void **state) {
    (void)state;
    strcpy(root, "/tmp/trivium-cores-XXXXXX");
    return mkdtemp(root) ? 0 : 1;
}
static int end(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

TEST(test_quota_of_version_2) {
    assert_true(isinf(cores_quota(root))); /* no cgroups at all */
    write_file("proc/self/cgroup", "0::/a/b\n");
    assert_true(isinf(cores_quota(root)));
    write_file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_true(isinf(cores_quota(root)));
    write_file("sys/fs/cgroup/a/cpu.max", "350000 100000\n"); /* an ancestor's quota */
    assert_true(cores_quota(root) == 3.5);
    write_file("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_true(cores_quota(root) == 0.5);
    write_file("proc/self/cgroup", "0::/\n"); /* a container sees its own group as the root */
    write_file("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_true(cores_quota(root) == 2);
}

TEST(test_quota_of_version_1) {
    write_file("proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/docker/77\n3:memory:/y\n0::/\n");
    write_file("sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "1000"); /* another controller's file does not count */
    write_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_true(isinf(cores_quota(root)));
    /* the host's path does not exist below the mount, so the mount's root counts */
    write_file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
    assert_true(cores_quota(root) == 1.5);
    write_file("sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.cfs_quota_us", "25000\n");
    write_file("sys/fs/cgroup/cpu,cpuacct/docker/77/cpu.cfs_period_us", "100000\n");
    assert_true(cores_quota(root) == 0.25);
}

TEST(test_allowed_follows_the_mask) {
    cpu_set_t mask, one;
    unsigned char bits[CORES_MASK_BYTES];
    int first = 0;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    assert_int_equal(cores_mask(bits), CPU_COUNT(&mask));
    while (!CPU_ISSET(first, &mask)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int bound = cores_mask(bits);
    double allowed = cores_allowed();
    assert_int_equal(sched_setaffinity(0, sizeof mask, &mask), 0);
    assert_int_equal(bound, 1);
    assert_true(bits[first / 8] == 1 << first % 8);
    assert_true(allowed > 0 && allowed <= 1);
}

#define made_up(f) cmocka_unit_test_setup_teardown(f, begin, end)

/* ---- spans ---- */

TEST(test_spans_lie_in_the_order_in_which_they_were_opened) {
    struct spans s;
    assert_ok(spans_init(&s, 4));
    s.now.step = 7;
    s.now.microbatch = 3;
    int outer = span_open(&s, SPAN_ACTION, 1), inner = span_open(&s, SPAN_ROW, 2);
    span_close(&s, inner);
    span_close(&s, outer);
    assert_int_equal(s.n, 2);
    const struct span *x = s.span;
    assert_true(x[0].kind == SPAN_ACTION && x[0].what == 1 && x[1].kind == SPAN_ROW && x[1].what == 2);
    assert_true(x[0].start_s <= x[1].start_s && x[1].start_s <= x[1].end_s && x[1].end_s <= x[0].end_s);
    assert_true(x[1].step == 7 && x[1].microbatch == 3);
    spans_outside(&s);
    span_close(&s, span_open(&s, SPAN_COMM, 0));
    assert_true(x[2].step == 7 && x[2].microbatch == -1 && x[2].action == -1 && x[2].other == -1 && x[2].wait_s == 0);
    spans_fini(&s);
}

TEST(test_spans_without_room_are_counted) {
    struct spans s;
    assert_ok(spans_init(&s, 2));
    for (int i = 0; i < 5; i++) span_close(&s, span_open(&s, SPAN_ROW, i));
    assert_int_equal(s.n, 2);
    assert_int_equal(s.dropped, 3);
    spans_clear(&s);
    assert_true(s.n == 0 && s.dropped == 0 && span_open(&s, SPAN_ROW, 0) == 0);
    spans_fini(&s);
}

TEST(test_nobody_records) {
    int span = span_open(NULL, SPAN_ROW, 0);
    assert_int_equal(span, -1);
    span_close(NULL, span);
    spans_outside(NULL);
    assert_null(span_at(NULL, span));
}

TEST(test_more_spans_than_memory_are_refused) {
    struct spans s;
    assert_fails(spans_init(&s, INT64_C(1) << 40), E_MEMORY, "1099511627776", "fewer steps");
    spans_fini(&s);
}

TESTS(made_up(test_quota_of_version_2), made_up(test_quota_of_version_1), unit_test(test_allowed_follows_the_mask),
      unit_test(test_spans_lie_in_the_order_in_which_they_were_opened), unit_test(test_spans_without_room_are_counted),
      unit_test(test_nobody_records), unit_test(test_more_spans_than_memory_are_refused))
