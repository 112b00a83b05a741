/* Arenas: each is one allocation with a guard after it; a canary measures how much of it was really written. */
#include "lib/device/arena.h"

#include <inttypes.h>
#include <stddef.h>

enum { GUARD_BYTES = 4096 };

const char *role_name(enum role role) {
    static const char *const names[N_ROLES] = {"param", "grad", "optim", "act", "comm", "work", "save"};
    return (unsigned)role < N_ROLES ? names[role] : "unknown";
}

int64_t roles_total(const int64_t bytes[N_ROLES]) {
    int64_t total = 0;
    for (enum role role = 0; role < N_ROLES; role++) total += bytes[role];
    return total;
}

/* Bytes allocated from base on: the planned bytes, rounded up to whole words, and the guard. */
int64_t arena_held_bytes(int64_t bytes) { return arena_align(bytes) + GUARD_BYTES; }
static int64_t held_bytes(const struct arena *a) { return arena_held_bytes(a->bytes); }

static enum status allocate(const struct arena *a, void **out) {
    return a->pins ? a->pins->pin(a->pins, held_bytes(a), out) : a->device->allocate(a->device, held_bytes(a), out);
}

static enum status init(struct arena *a, bool watch) {
    const struct device *device = a->device;
    enum role role = a->role;
    int64_t bytes = a->bytes;
    if (bytes < 0 || bytes > INT64_MAX - GUARD_BYTES - ARENA_ALIGN)
        return FAIL(E_INTERNAL, "a plan of %" PRId64 " bytes for %s", bytes, role_name(role));
    void *memory;
    if (allocate(a, &memory) != OK)
        return FAIL(E_MEMORY, "%s has no room for %.1f MiB of %s; use a smaller micro-batch or more ranks (tp, pp)",
                    device->name, (double)bytes / (1 << 20), role_name(role));
    a->base = memory;
    if (!watch) return OK;
    enum status status = device->fill(device, a->base, ARENA_CANARY, held_bytes(a));
    if (status != OK) arena_fini(a);
    return status;
}

enum status arena_init(struct arena *a, const struct device *device, enum role role, int64_t bytes, bool watch) {
    *a = (struct arena){device, role, bytes, NULL, watch, NULL};
    return init(a, watch);
}

enum status arena_init_pinned(struct arena *a, const struct device *pins, enum role role, int64_t bytes, bool watch) {
    *a = (struct arena){device_cpu(), role, bytes, NULL, watch, pins};
    return init(a, watch);
}

void arena_fini(struct arena *a) {
    if (a->base && a->pins) a->pins->unpin(a->pins, a->base);
    else if (a->base) a->device->release(a->device, a->base, held_bytes(a));
    a->base = NULL;
}

/* End of the last byte of block[0..bytes) that differs from the canary; 0 if none does. */
static int64_t last_written(const unsigned char *block, int64_t bytes) {
    uint64_t canary = ARENA_CANARY;
    const unsigned char *pattern = (const unsigned char *)&canary;
    while (bytes > 0 && block[bytes - 1] == pattern[(bytes - 1) % 8]) bytes--;
    return bytes;
}

/* As last_written, for device memory, which begins at a whole word. */
static enum status find_written(const struct device *device, const char *memory, int64_t bytes, int64_t *end) {
    enum { BLOCK = 16384 };
    unsigned char block[BLOCK];
    *end = 0;
    for (int64_t n; bytes > 0 && *end == 0; bytes -= n) {
        n = (bytes - 1) % BLOCK + 1;                 /* so each block begins at a multiple of 8, as the pattern does */
        TRY(device->download(device, block, memory + bytes - n, n));
        int64_t written = last_written(block, n);
        if (written > 0) *end = bytes - n + written;
    }
    return OK;
}

enum status arena_measure(const struct arena *a, int64_t *bytes) {
    *bytes = 0;
    if (!a->watched) return FAIL(E_INTERNAL, "the %s arena was not made with watch", role_name(a->role));
    return find_written(a->device, a->base, held_bytes(a), bytes);
}

enum status arena_paint(const struct arena *a, void *memory, int64_t bytes) {
    int64_t end;
    TRY(find_written(a->device, memory, bytes, &end));
    return a->device->fill(a->device, memory, ARENA_DEAD, end / 8 * 8);
}
