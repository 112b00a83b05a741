/* Opens the file, and handles transfers that are short or fail. */
#define _GNU_SOURCE /* O_DIRECT, mkostemp */
#include "lib/device/disk_private.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_without_name(char *path_template, int flags) {
    int fd = mkostemp(path_template, flags | O_CLOEXEC);
    if (fd >= 0 || errno != EINVAL) {
        if (fd >= 0) unlink(path_template);
        return fd;
    }
    unlink(path_template);                                           /* the file may exist, although O_DIRECT failed */
    errno = EINVAL;
    return -1;
}
static int reserve(int fd, int64_t bytes) { return posix_fallocate(fd, 0, bytes); }

const struct disk_calls disk_system_calls = {make_without_name, reserve, pread, pwrite};

/* ---- opening ---- */
static int make(struct disk *d, int flags) {
    char path[sizeof d->folder + 32];
    snprintf(path, sizeof path, "%s/trivium-offload-XXXXXX", d->folder);
    return d->calls->make(path, flags);
}

static enum status make_file(struct disk *d) {
    d->fd = make(d, O_DIRECT);
    d->direct = d->fd >= 0;
    if (d->fd < 0 && errno == EINVAL) d->fd = make(d, 0);
    if (d->fd >= 0) return OK;
    return FAIL(E_IO, "cannot make a file in offload-path=%s: %s; give --offload-path a writable folder on a local "
                "disk", d->folder, strerror(errno));
}

static enum status reserve_room(struct disk *d) {
    struct stat is;
    int error = d->calls->reserve(d->fd, d->bytes);
    if (error)
        return FAIL(E_IO, "offload-path=%s has no room for %.1f MiB: %s; free some, use another folder, or more ranks",
                    d->folder, (double)d->bytes / (1 << 20), strerror(error));
    if (fstat(d->fd, &is) == 0 && is.st_size == d->bytes) return OK;
    return FAIL(E_IO, "the file in offload-path=%s has %" PRId64 " bytes instead of %" PRId64 "; use another folder",
                d->folder, (int64_t)is.st_size, d->bytes);
}

/* Try one transfer, because some file systems open a file with O_DIRECT and refuse the first transfer. */
static enum status try_direct(struct disk *d) {
    if (d->direct && d->calls->read(d->fd, d->bounce, DISK_PAGE, 0) < 0 && errno == EINVAL) {
        d->direct = false;
        if (fcntl(d->fd, F_SETFL, fcntl(d->fd, F_GETFL) & ~O_DIRECT) != 0)
            return FAIL(E_IO, "cannot go on without O_DIRECT in offload-path=%s: %s", d->folder, strerror(errno));
    }
    if (!d->direct)
        log_warn("offload-path=%s: its file system refuses O_DIRECT; what is offloaded passes through the page cache, "
                 "in host memory", d->folder);
    return OK;
}

static enum status reserve_addresses(struct disk *d) {
    void *base = mmap(NULL, (size_t)d->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return FAIL(E_MEMORY, "no %" PRId64 " addresses for the offload file: %s", d->bytes, strerror(errno));
    d->base = base;
    if (posix_memalign((void **)&d->bounce, DISK_PAGE, DISK_BOUNCE) != 0) {
        d->bounce = NULL;
        return FAIL(E_MEMORY, "no memory for %d bytes of the offload file", DISK_BOUNCE);
    }
    return OK;
}

/* If the caller did not ask for io_uring by name, a kernel without it (or a container that forbids it) is no
 * failure. */
static enum status open_engine(struct disk *d, enum disk_engine_choice choice) {
    enum status status = OK;
    if (choice != DISK_THREADS) {
        status = disk_uring ? disk_uring->open(d)
                            : FAIL(E_DEVICE, "this build has no io_uring; install liburing-dev and build again, or use "
                                             "--offload-io threads");
        if (status == OK) d->engine = disk_uring;
        if (status == OK || choice == DISK_URING) return status;
        status_clear();
    }
    TRY(disk_threads.open(d));
    d->engine = &disk_threads;
    return OK;
}

enum status disk_open(const char *folder, int64_t bytes, enum disk_engine_choice choice,
                      const struct disk_calls *calls, struct disk **out) {
    struct disk *d = *out = calloc(1, sizeof *d);
    if (!d) return FAIL(E_MEMORY, "no memory for the tables of an offload file");
    d->fd = -1;
    d->bytes = bytes;
    d->calls = calls;
    snprintf(d->folder, sizeof d->folder, "%s", folder);
    disk_device_init(d);
    enum status status = reserve_addresses(d);
    if (status == OK) status = make_file(d);
    if (status == OK) status = reserve_room(d);
    if (status == OK) status = try_direct(d);
    if (status == OK) status = open_engine(d, choice);
    if (status != OK) disk_close(out);
    return status;
}

void disk_close(struct disk **disk) {
    struct disk *d = *disk;
    if (!d) return;
    if (d->engine) d->engine->close(d);
    if (d->fd >= 0) close(d->fd);
    if (d->base) munmap(d->base, (size_t)d->bytes);
    free(d->bounce);
    free(d);
    *disk = NULL;
}

const struct device *disk_device(const struct disk *d) { return &d->device; }
const char *disk_engine_name(const struct disk *d) { return d->engine->name; }
bool disk_is_direct(const struct disk *d) { return d->direct; }
struct disk_traffic disk_traffic(const struct disk *d) { return d->traffic; }

/* ---- transfers ---- */
static enum status start(struct disk *d, struct disk_io *io) {
    __atomic_store_n(&io->done, false, __ATOMIC_RELAXED);
    return d->engine->start(d, io);
}

enum status disk_start(struct disk *d, struct disk_io *io) {
    int64_t at = disk_offset(d, io->place);
    if (at < 0 || at % DISK_PAGE || io->bytes % DISK_PAGE || (uintptr_t)io->memory % DISK_PAGE ||
        at + io->bytes > d->bytes)
        return FAIL(E_INTERNAL, "a transfer of %" PRId64 " bytes at %" PRId64 " of an offload file of %" PRId64
                    " bytes, to %p; whole pages within it are wanted", io->bytes, at, d->bytes, io->memory);
    *(io->write ? &d->traffic.written_bytes : &d->traffic.read_bytes) += io->bytes;
    io->moved = 0;
    io->busy = true;
    return start(d, io);
}

static enum status failed(const struct disk *d, const struct disk_io *io) {
    const char *what = io->write ? "write" : "read";
    int64_t at = disk_offset(d, io->place);
    if (io->result < 0)
        return FAIL(E_IO, "cannot %s %" PRId64 " bytes at %" PRId64 " of the offload file in %s: %s; mend that, and go "
                    "on from the last checkpoint (--resume)", what, io->bytes, at, d->folder,
                    strerror((int)-io->result));
    return FAIL(E_IO, "the offload file in %s ends at %" PRId64 ", in the middle of a %s of %" PRId64 " bytes at "
                "%" PRId64 "; was it shortened? Go on from the last checkpoint (--resume)", d->folder, at + io->moved,
                what, io->bytes, at);
}

/* After a part was moved, the rest is started, unless the part ended within a page: then the file ends there. */
static enum status wait(struct disk *d, struct disk_io *io) {
    for (;;) {
        TRY(d->engine->wait(d, io));
        if (io->result <= 0) return failed(d, io);
        io->moved += io->result;
        if (io->moved >= io->bytes) return OK;
        if (io->moved % DISK_PAGE) return failed(d, io);
        TRY(start(d, io));
    }
}

enum status disk_wait(struct disk *d, struct disk_io *io) {
    double from = clock_s();
    if (!io->busy) return OK;
    enum status status = wait(d, io);
    io->busy = false;
    d->traffic.wait_s += clock_s() - from;
    return status;
}
