/* The host as a device: its memory is the process's own, and copies are memcpy. */
#include "lib/device/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

enum { PAGE_BYTES = 4096, HUGE_PAGE_BYTES = 2 << 20 };

/* A container's limit, the host's memory where it has none */
static double container_bytes(const char *path, double bytes) {
    double limit;
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf", &limit) == 1 && limit < bytes) bytes = limit;
    if (f) fclose(f);
    return bytes;
}

enum status device_cpu_room(int64_t bytes, int ranks) {
    static const double gib = 1 << 30;
    struct sysinfo s;
    double needed = (double)bytes * ranks;
    if (sysinfo(&s) != 0) return OK;
    double has = container_bytes("/sys/fs/cgroup/memory.max", (double)s.totalram * s.mem_unit);
    has = container_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes", has) + (double)s.totalswap * s.mem_unit;
    if (needed <= has) return OK;
    return FAIL(E_MEMORY, "%d rank%s of this host need%s %.1f GiB, and its memory is %.1f GiB; use a smaller model or "
                "more hosts (--zero, --recompute and --precision bf16 save memory; `show memory` lists it)",
                ranks, ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", needed / gib, has / gib);
}

/* Ask for pages of 2 MB. Kernels walk through tensors row by row, and a row is a page of 4 KB or more, so that much of
 * their time would go into looking up addresses. If the system has no such pages, only the speed changes. */
static void wish_for_huge_pages(void *memory, int64_t bytes) {
#ifdef MADV_HUGEPAGE
    int64_t whole = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if (whole > 0) (void)madvise(memory, (size_t)whole, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

static enum status cpu_allocate(const struct device *device, int64_t bytes, void **out) {
    (void)device;
    *out = NULL;
    if (bytes < 0) return FAIL(E_INTERNAL, "asked for %" PRId64 " bytes of host memory", bytes);
    if (posix_memalign(out, bytes < HUGE_PAGE_BYTES ? PAGE_BYTES : HUGE_PAGE_BYTES, bytes > 0 ? (size_t)bytes : 1) != 0)
        return FAIL(E_MEMORY, "the system refused %" PRId64 " bytes of host memory", bytes);
    wish_for_huge_pages(*out, bytes);
    return OK;
}

static void cpu_release(const struct device *device, void *memory, int64_t bytes) {
    (void)device, (void)bytes;
    free(memory);
}

static enum status cpu_fill(const struct device *device, void *to, uint64_t pattern, int64_t bytes) {
    (void)device;
    uint64_t *words = to;
    for (int64_t i = 0; i < bytes / 8; i++) words[i] = pattern;
    return OK;
}

static enum status cpu_copy(const struct device *device, void *to, const void *from, int64_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(to, from, (size_t)bytes);                  /* with 0 bytes an address may be NULL */
    return OK;
}

static bool cpu_owns(const struct device *device, const void *address) {
    (void)device, (void)address;
    return true;
}

static enum status cpu_clear(const struct device *device, void *to, int64_t bytes) {
    (void)device;
    if (bytes > 0) memset(to, 0, (size_t)bytes);
    return OK;
}

static enum status cpu_finish(const struct device *device) {
    (void)device;
    return OK;
}

static void cpu_unpin(const struct device *device, void *memory) {
    (void)device;
    free(memory);
}

/* Work is done when it has been issued, so a mark records nothing. */
static enum status cpu_mark_set(const struct device *device, struct device_mark *mark) {
    (void)device, (void)mark;
    return OK;
}
static enum status cpu_mark_done(const struct device *device, const struct device_mark *mark, bool *done) {
    (void)device, (void)mark;
    *done = true;
    return OK;
}
static void cpu_mark_fini(const struct device *device, struct device_mark *mark) { (void)device, (void)mark; }

static enum status cpu_copy_beside(const struct device *device, void *to, const void *from, int64_t bytes,
                                   struct device_mark *mark) {
    (void)mark;
    return cpu_copy(device, to, from, bytes);
}
static enum status cpu_copy_join(const struct device *device, const struct device_mark *mark) {
    (void)device, (void)mark;
    return OK;
}

static void cpu_memory(const struct device *device, int64_t *used_bytes, int64_t *total_bytes) {
    (void)device;
    *used_bytes = *total_bytes = -1;
}

const struct device *device_cpu(void) {
    static const struct device cpu = {
        .kind = DEVICE_CPU, .name = "cpu", .allocate = cpu_allocate, .release = cpu_release, .owns = cpu_owns,
        .fill = cpu_fill, .clear = cpu_clear, .copy = cpu_copy, .upload_start = cpu_copy, .download_start = cpu_copy,
        .copy_beside = cpu_copy_beside, .copy_join = cpu_copy_join,
        .upload = cpu_copy, .download = cpu_copy, .finish = cpu_finish, .pin = cpu_allocate, .unpin = cpu_unpin,
        .mark_set = cpu_mark_set, .mark_done = cpu_mark_done, .mark_fini = cpu_mark_fini, .memory = cpu_memory,
    };
    return &cpu;
}

/* ---- in a build without CUDA: the refusal of a CUDA device ---- */

#ifndef TRIVIUM_CUDA
int device_cuda_count(void) { return 0; }

enum status device_cuda(int index, const struct device **out) {
    (void)index, (void)out;
    return FAIL(E_DEVICE,
                "this build has no CUDA; install the CUDA toolkit and build again (make CUDA=1), or use --device cpu");
}
#endif
