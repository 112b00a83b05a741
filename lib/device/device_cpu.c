/* The host as a device: its memory is the process's own, and copies are memcpy. */
#include "lib/device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_BYTES = 4096 };

static enum status cpu_allocate(const struct device *device, int64_t bytes, void **out) {
    (void)device;
    *out = NULL;
    if (bytes < 0) return FAIL(E_INTERNAL, "asked for %" PRId64 " bytes of host memory", bytes);
    if (posix_memalign(out, PAGE_BYTES, bytes > 0 ? (size_t)bytes : 1) != 0)
        return FAIL(E_MEMORY, "the system refused %" PRId64 " bytes of host memory", bytes);
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
    memcpy(to, from, (size_t)bytes);
    return OK;
}

const struct device *device_cpu(void) {
    static const struct device cpu = {
        .kind = DEVICE_CPU, .name = "cpu", .allocate = cpu_allocate, .release = cpu_release, .fill = cpu_fill,
        .upload = cpu_copy, .download = cpu_copy,
    };
    return &cpu;
}
