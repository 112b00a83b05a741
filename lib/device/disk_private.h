/* Declarations shared by disk*.c. */
#pragma once

#include "lib/device/disk.h"

/* An engine does the transfers. start: queue the rest of a transfer (from `moved` on). wait: until io->done, with
 * io->result set. */
struct disk_engine {
    const char *name;
    enum status (*open)(struct disk *);
    enum status (*start)(struct disk *, struct disk_io *);
    enum status (*wait)(struct disk *, struct disk_io *);
    void (*close)(struct disk *);
};
extern const struct disk_engine disk_threads;
extern const struct disk_engine *const disk_uring;                   /* NULL: this build has no io_uring */

struct disk {
    struct device device;                /* must be first, because its address is the disk's */
    const struct disk_calls *calls;
    const struct disk_engine *engine;
    void *self;                          /* the engine's */
    char folder[512];
    int fd;
    bool direct;
    char *base;                          /* addresses of the file's bytes; not readable */
    int64_t bytes, taken;
    char *bounce;                        /* DISK_BOUNCE bytes */
    struct disk_traffic traffic;
};

/** The offset of a place in the file. */
static inline int64_t disk_offset(const struct disk *d, const void *place) { return (const char *)place - d->base; }

/** Set the functions of the device (disk_device.c). */
void disk_device_init(struct disk *);
enum { DISK_BOUNCE = 1 << 20 };
