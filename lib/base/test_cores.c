/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* sched_setaffinity */
#include "lib/base/cores.h"
#include "tests/test.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
TESTS(made_up(test_quota_of_version_2), made_up(test_quota_of_version_1),
      unit_test(test_allowed_follows_the_mask))
