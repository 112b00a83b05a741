/* A file as a tier of memory: whole pages are read and written while something else is computed.
 *
 * One file for each rank, made at its full size, so that a full disk shows before the first step. It loses its name as
 * soon as it is open: no one can find, shorten or remove it, and it is gone when the process ends, however it ends.
 *
 * Transfers go around the system's page cache (O_DIRECT): it would hold the bytes in the very memory that they left.
 * So memory, places and lengths are multiples of DISK_PAGE. A file system that refuses this is used through the cache,
 * with a warning.
 *
 * Two engines: io_uring (the kernel's own queue; liburing, where the build and the kernel have it) and threads that
 * call pread and pwrite. A disk that does not answer stops its rank, and no signal ends that; the other ranks wait as
 * long as --comm-timeout and name it.
 *
 * What lies in the file has addresses, in pages without read access: a pointer that is followed by mistake is a crash,
 * never a wrong number. They are what arenas and params hold, and what the functions below take. */
#pragma once

#include "lib/device/device.h"
#include <sys/types.h>

enum { DISK_PAGE = 4096 };
enum disk_engine_choice { DISK_AUTO, DISK_URING, DISK_THREADS };

struct disk;

/* The system's calls that can fail; tests have others. make: a new file of that template, without a name in the end. */
struct disk_calls {
    int (*make)(char *path_template, int flags);
    int (*reserve)(int fd, int64_t bytes);                           /* 0, or the error's number */
    ssize_t (*read)(int fd, void *to, size_t bytes, off_t at);
    ssize_t (*write)(int fd, const void *from, size_t bytes, off_t at);
};
extern const struct disk_calls disk_system_calls;

/** A file of `bytes` (a multiple of DISK_PAGE) in the folder. The caller closes *out. DISK_AUTO: io_uring if it is
 *  there, else threads. @param calls borrowed; the io_uring engine reads and writes without them
 *  @errors E_IO: no such folder, or no room (with the system's reason); E_DEVICE: DISK_URING, and there is no
 *  io_uring; E_MEMORY  @collective{none} */
enum status disk_open(const char *folder, int64_t bytes, enum disk_engine_choice, const struct disk_calls *calls,
                      struct disk **out);
/** Waits for what is in flight. */
void disk_close(struct disk **);

/** The file as a device: `allocate` gives out its places one after the other; upload, download, fill, clear and copy
 *  are complete on return, and may begin and end in the middle of a page. One thread at a time. Borrowed. */
const struct device *disk_device(const struct disk *);
/** "io_uring" or "threads"; does it go around the page cache? */
const char *disk_engine_name(const struct disk *);
bool disk_is_direct(const struct disk *);

/* One transfer of whole pages: between memory, aligned to a page, and a place that `allocate` gave out. The storage is
 * the caller's, and stays where it is until disk_wait has returned. */
struct disk_io {
    bool write;
    void *memory;
    const void *place;
    int64_t bytes;
    /* the engine's */
    int64_t moved;
    int64_t result;                      /* of the last call: bytes, or minus the error's number */
    bool done;                           /* set by an engine's thread: read by __atomic_load_n */
    bool busy;                           /* started, and not waited for */
    struct disk_io *next;
};
/** Start it. @errors E_INTERNAL: not whole pages, or beyond the file  @collective{none} */
enum status disk_start(struct disk *, struct disk_io *);
/** Until it is complete; OK at once for one that was not started. A part that was moved is followed by the rest.
 *  @errors E_IO with place, length and the system's reason: a failed call, or a file that ends too early */
enum status disk_wait(struct disk *, struct disk_io *);

/* Since it was opened: bytes of all transfers, and the seconds that disk_wait has taken. */
struct disk_traffic { int64_t read_bytes, written_bytes; double wait_s; };
struct disk_traffic disk_traffic(const struct disk *);
