/* The file as a device: any bytes of it, through a buffer of whole pages. For set-up, checkpoints and tests. */
#include "lib/base/integer.h"
#include "lib/device/disk_private.h"

#include <inttypes.h>
#include <string.h>

static struct disk *disk_of(const struct device *device) { return (struct disk *)device; }

static enum status transfer(struct disk *d, bool write, int64_t at, int64_t bytes) {
    struct disk_io io = {.write = write, .memory = d->bounce, .place = d->base + at, .bytes = bytes};
    TRY(disk_start(d, &io));
    return disk_wait(d, &io);
}

/* The pages of a stretch of the file that fit the buffer: bytes [at, at + n) are at offset `skip` in the `span` bytes
 * from `page` on. */
struct stretch { int64_t page, span, skip, n; };
static struct stretch first_stretch(int64_t at, int64_t bytes) {
    int64_t page = at / DISK_PAGE * DISK_PAGE, end = round_up(at + bytes, DISK_PAGE);
    int64_t span = end - page < DISK_BOUNCE ? end - page : DISK_BOUNCE, skip = at - page;
    return (struct stretch){page, span, skip, bytes < span - skip ? bytes : span - skip};
}

/* Write n bytes: a copy of `from`, or a repeated pattern. */
static void put(char *to, const char *from, uint64_t pattern, int64_t n) {
    if (from) memcpy(to, from, (size_t)n);
    for (int64_t i = 0; !from && i < n; i += 8) memcpy(to + i, &pattern, n - i < 8 ? (size_t)(n - i) : 8);
}

static enum status store(const struct device *device, void *to, const char *from, uint64_t pattern, int64_t bytes) {
    struct disk *d = disk_of(device);
    for (int64_t at = disk_offset(d, to); bytes > 0;) {
        struct stretch s = first_stretch(at, bytes);
        if (s.n < s.span) TRY(transfer(d, false, s.page, s.span));   /* keeps the rest of the pages */
        put(d->bounce + s.skip, from, pattern, s.n);
        TRY(transfer(d, true, s.page, s.span));
        at += s.n, bytes -= s.n;
        if (from) from += s.n;
    }
    return OK;
}

static enum status disk_upload(const struct device *device, void *to, const void *from, int64_t bytes) {
    return store(device, to, from, 0, bytes);
}
static enum status disk_fill(const struct device *device, void *to, uint64_t pattern, int64_t bytes) {
    return store(device, to, NULL, pattern, bytes);
}
static enum status disk_clear(const struct device *device, void *to, int64_t bytes) {
    return store(device, to, NULL, 0, bytes);
}

static enum status disk_download(const struct device *device, void *to, const void *from, int64_t bytes) {
    struct disk *d = disk_of(device);
    char *out = to;
    for (int64_t at = disk_offset(d, from); bytes > 0;) {
        struct stretch s = first_stretch(at, bytes);
        TRY(transfer(d, false, s.page, s.span));
        memcpy(out, d->bounce + s.skip, (size_t)s.n);
        at += s.n, bytes -= s.n, out += s.n;
    }
    return OK;
}

static enum status disk_copy(const struct device *device, void *to, const void *from, int64_t bytes) {
    char block[16384];
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < (int64_t)sizeof block ? bytes - done : (int64_t)sizeof block;
        TRY(disk_download(device, block, (const char *)from + done, n));
        TRY(disk_upload(device, (char *)to + done, block, n));
    }
    return OK;
}

static enum status disk_allocate(const struct device *device, int64_t bytes, void **out) {
    struct disk *d = disk_of(device);
    int64_t wanted = round_up(bytes, DISK_PAGE);
    *out = NULL;
    if (wanted > d->bytes - d->taken)
        return FAIL(E_MEMORY, "%" PRId64 " bytes of an offload file, and %" PRId64 " of %" PRId64 " are left", bytes,
                    d->bytes - d->taken, d->bytes);
    *out = d->base + d->taken;
    d->taken += wanted;
    return OK;
}
static void disk_release(const struct device *device, void *memory, int64_t bytes) {
    (void)device, (void)memory, (void)bytes;
}
static bool disk_owns(const struct device *device, const void *address) {
    const struct disk *d = disk_of(device);
    return disk_offset(d, address) >= 0 && disk_offset(d, address) < d->bytes;
}

/* All issued work is done, as on the CPU. */
static enum status disk_finish(const struct device *device) {
    (void)device;
    return OK;
}
static enum status disk_mark_set(const struct device *device, struct device_mark *mark) {
    (void)device, (void)mark;
    return OK;
}
static enum status disk_mark_done(const struct device *device, const struct device_mark *mark, bool *done) {
    (void)device, (void)mark;
    *done = true;
    return OK;
}
static void disk_mark_fini(const struct device *device, struct device_mark *mark) { (void)device, (void)mark; }
static void disk_memory(const struct device *device, int64_t *used_bytes, int64_t *total_bytes) {
    *used_bytes = disk_of(device)->taken, *total_bytes = disk_of(device)->bytes;
}

void disk_device_init(struct disk *d) {
    const struct device *cpu = device_cpu();
    d->device = (struct device){
        .kind = DEVICE_DISK, .name = "disk", .allocate = disk_allocate, .release = disk_release, .owns = disk_owns,
        .fill = disk_fill, .clear = disk_clear, .copy = disk_copy, .upload_start = disk_upload,
        .download_start = disk_download, .upload = disk_upload, .download = disk_download, .finish = disk_finish,
        .pin = cpu->pin, .unpin = cpu->unpin, .mark_set = disk_mark_set, .mark_done = disk_mark_done,
        .mark_fini = disk_mark_fini, .memory = disk_memory};
}
