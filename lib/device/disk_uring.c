/* Transfers by the kernel's own queue: no thread waits, and many are in flight. In a build with liburing only.
 * Source: Axboe 2019, "Efficient IO with io_uring". */
#include "lib/device/disk_private.h"

#ifdef TRIVIUM_URING
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 64 };                   /* size of the queue; further transfers wait until one ends */

static enum status uring_open(struct disk *d) {
    struct io_uring *ring = malloc(sizeof *ring);
    if (!ring) return FAIL(E_MEMORY, "no memory for the queue of an offload file");
    int error = io_uring_queue_init(ENTRIES, ring, 0);
    d->self = ring;
    if (!error) return OK;
    free(ring);
    return FAIL(E_DEVICE, "this system refuses io_uring: %s; use --offload-io threads", strerror(-error));
}

static void uring_close(struct disk *d) {
    io_uring_queue_exit(d->self);
    free(d->self);
}

/* Wait until one more transfer has ended, no matter which. */
static enum status reap(struct disk *d) {
    struct io_uring_cqe *end;
    int error = io_uring_wait_cqe(d->self, &end);
    if (error) return error == -EINTR ? OK : FAIL(E_IO, "io_uring: %s; use --offload-io threads", strerror(-error));
    struct disk_io *io = io_uring_cqe_get_data(end);
    io->result = end->res;
    io->done = true;
    io_uring_cqe_seen(d->self, end);
    return OK;
}

static enum status uring_start(struct disk *d, struct disk_io *io) {
    struct io_uring_sqe *entry;
    int64_t at = disk_offset(d, io->place) + io->moved;
    while (!(entry = io_uring_get_sqe(d->self))) TRY(reap(d));
    char *memory = (char *)io->memory + io->moved;
    unsigned bytes = (unsigned)(io->bytes - io->moved);
    if (io->write) io_uring_prep_write(entry, d->fd, memory, bytes, (uint64_t)at);
    else io_uring_prep_read(entry, d->fd, memory, bytes, (uint64_t)at);
    io_uring_sqe_set_data(entry, io);
    int n = io_uring_submit(d->self);
    return n >= 0 ? OK : FAIL(E_IO, "io_uring refuses a transfer of %u bytes: %s; use --offload-io threads", bytes,
                              strerror(-n));
}

static enum status uring_wait(struct disk *d, struct disk_io *io) {
    while (!io->done) TRY(reap(d));
    return OK;
}

static const struct disk_engine engine = {"io_uring", uring_open, uring_start, uring_wait, uring_close};
const struct disk_engine *const disk_uring = &engine;
#else
#include <stddef.h>
const struct disk_engine *const disk_uring = NULL;
#endif
