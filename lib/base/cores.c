#define _GNU_SOURCE /* sched_getaffinity */
#include "lib/base/cores.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

int cores_count(const unsigned char mask[CORES_MASK_BYTES]) {
    int n = 0;
    for (int i = 0; i < CORES_MASK_BYTES; i++) n += __builtin_popcount(mask[i]);
    return n;
}

int cores_mask(unsigned char mask[CORES_MASK_BYTES]) {
    memset(mask, 0, CORES_MASK_BYTES);
#ifdef __linux__
    unsigned long words[CORES_MASK_BYTES / sizeof(unsigned long)] = {0}; /* the kernel writes whole words */
    if (sched_getaffinity(0, sizeof words, (cpu_set_t *)words) == 0) memcpy(mask, words, sizeof words);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores_count(mask) == 0)
        for (long c = 0; c < online && c < 8 * CORES_MASK_BYTES; c++) mask[c / 8] |= (unsigned char)(1 << c % 8);
    return cores_count(mask);
}

/* ---- cgroups ---- */

/* Read the one or two numbers that begin a file, as in "150000 100000". @return how many were read; 0 for "max ..." */
static int read_numbers(const char *folder, const char *name, double *a, double *b) {
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    int n = f ? fscanf(f, "%lf %lf", a, b) : 0;
    if (f) fclose(f);
    return n;
}

static double quota_of(const char *folder) {
    double quota, period, none;
    if (read_numbers(folder, "cpu.max", &quota, &period) == 2) return quota / period;
    bool both = read_numbers(folder, "cpu.cfs_quota_us", &quota, &none) >= 1 &&
                read_numbers(folder, "cpu.cfs_period_us", &period, &none) >= 1;
    return both && quota > 0 ? quota / period : INFINITY; /* in version 1, -1 means no quota */
}

/* The least quota of a group and its ancestors. In a container, `group` may be the host's path, which does not exist
 * below the mount; the root of the mount always counts. */
static double quota_up_from(const char *mount, const char *group) {
    char folder[PATH_MAX];
    double least = quota_of(mount);
    int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n >= (int)sizeof folder) return least;
    for (char *slash; (slash = strrchr(folder, '/')) != NULL && slash >= folder + strlen(mount); *slash = 0)
        least = fmin(least, quota_of(folder));
    return least;
}

/* Is `cpu` one of the controllers in "cpu,cpuacct"? Version 2 names no controllers; its group controls `cpu`. */
static bool controls_cpu(const char *controllers) {
    for (const char *c = controllers; c && *c; c = strchr(c, ',') ? strchr(c, ',') + 1 : NULL)
        if (strncmp(c, "cpu", 3) == 0 && (c[3] == 0 || c[3] == ',')) return true;
    return *controllers == 0;
}

/* /proc/self/cgroup has lines "4:cpu,cpuacct:/group" in version 1 and "0::/group" in version 2. */
double cores_quota(const char *root) {
    char path[PATH_MAX], line[PATH_MAX], mount[PATH_MAX];
    double least = INFINITY;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (!controls_cpu(++controllers)) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%.200s", root, *controllers ? "/" : "", controllers);
        least = fmin(least, quota_up_from(mount, group));
    }
    if (f) fclose(f);
    return least;
}

double cores_allowed(void) {
    unsigned char mask[CORES_MASK_BYTES];
    return fmin(cores_mask(mask), cores_quota(""));
}
