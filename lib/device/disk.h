/* A file as a tier of memory: whole pages are read and written while something else is computed.
 *
 * One file for each rank, made at its full size, so that a full disk shows before the first step. It loses its name as
 * soon as it is open. So no other process can shorten or remove it, and the system frees it however this process ends.
 *
 * Transfers bypass the system's page cache (O_DIRECT), which would hold the bytes in the host memory that they have
 * left. So addresses, offsets and lengths are multiples of DISK_PAGE. If a file system refuses O_DIRECT, transfers go
 * through the cache, with a warning.
 *
 * Two engines: io_uring (the kernel's own queue; liburing, where the build and the kernel have it) and threads that
 * call pread and pwrite. A rank whose disk does not answer stops, and no signal ends it; the other ranks time out after
 * --comm-timeout and name that rank.
 *
 * Bytes of the file have addresses, in pages without read access, so that a read through such a pointer crashes, and
 * never returns a wrong number. Arenas and params hold these addresses, and the functions below take them. */
#pragma once

#include "lib/device/device.h"
#include <sys/types.h>

enum { DISK_PAGE = 4096 };
enum disk_engine_choice { DISK_AUTO, DISK_URING, DISK_THREADS };

struct disk;

/* The system calls that can fail; tests replace them. make: creates a file from the template, and removes its name. */
struct disk_calls {
    int (*make)(char *path_template, int flags);
    int (*reserve)(int fd, int64_t bytes);                           /* 0, or the error's number */
    ssize_t (*read)(int fd, void *to, size_t bytes, off_t at);
    ssize_t (*write)(int fd, const void *from, size_t bytes, off_t at);
};
extern const struct disk_calls disk_system_calls;

/** Create a file of `bytes` (a multiple of DISK_PAGE) in the folder. The caller closes *out. DISK_AUTO: io_uring if the
 *  system has it, otherwise threads. @param calls borrowed; the io_uring engine reads and writes without them @errors
 *  E_IO: no such folder, or no room (with the system's reason); E_DEVICE: DISK_URING, and there is no io_uring;
 *  E_MEMORY @collective{none} */
enum status disk_open(const char *folder, int64_t bytes, enum disk_engine_choice, const struct disk_calls *calls,
                      struct disk **out);
/** Close the file, after all transfers in flight. */
void disk_close(struct disk **);

/** The file as a device. `allocate` gives out its bytes in order. upload, download, fill, clear and copy are complete
 *  on return, and may begin and end in the middle of a page. One thread at a time. Borrowed. */
const struct device *disk_device(const struct disk *);
/** The engine's name, "io_uring" or "threads"; whether transfers bypass the page cache. */
const char *disk_engine_name(const struct disk *);
bool disk_is_direct(const struct disk *);

/* One transfer of whole pages, between memory that is aligned to a page and an address that `allocate` gave out. The
 * caller owns the storage, which must not move until disk_wait has returned. */
struct disk_io {
    bool write;
    void *memory;
    const void *place;
    int64_t bytes;
    /* the engine's */
    int64_t moved;
    int64_t result;                      /* the last call's result: bytes, or minus the error's number */
    bool done;                           /* an engine's thread sets it; read it by __atomic_load_n */
    bool busy;                           /* the transfer has started, and disk_wait has not returned */
    struct disk_io *next;
};
/** Start a transfer. @errors E_INTERNAL: not whole pages, or beyond the file @collective{none} */
enum status disk_start(struct disk *, struct disk_io *);
/** Wait until a transfer is complete; OK at once if it was not started. If only a part was moved, the rest follows.
 *  @errors E_IO with place, length and the system's reason: a failed call, or a file that ends too early */
enum status disk_wait(struct disk *, struct disk_io *);

/* Since the file was opened: bytes of all transfers, and seconds spent in disk_wait. */
struct disk_traffic { int64_t read_bytes, written_bytes; double wait_s; };
struct disk_traffic disk_traffic(const struct disk *);
