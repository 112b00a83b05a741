/* The figures are those of Open MPI 4.1. PMIx maps two files of 4 MiB. Each rank maps a segment of slightly more than 4
 * MiB in shared memory. mpirun keeps fewer than 40 files open, and 4 more per rank. */
#include "launch/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MIB = 1 << 20, FILE_BYTES = 5 * MIB, FILES_BYTES = 10 * MIB, SEGMENT_BYTES = 4 * MIB + MIB / 4 };
enum { OPEN_FILES = 40, OPEN_FILES_A_RANK = 4 };

/* ---- before the libraries: OpenBLAS's constructor retries its allocation without end ---- */

enum { BLAS_BYTES = 288 * MIB };

__attribute__((no_sanitize("address", "undefined"))) static void look_at_address_space(void) {
    struct rlimit limit;
    char line[400];
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    void *room = mmap(NULL, BLAS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, BLAS_BYTES);
        return;
    }
    int n = snprintf(line, sizeof line, "E_MEMORY limits.c:%d %s: `ulimit -v` is %" PRIu64 " kB, and OpenBLAS needs "
                     "%d MiB besides the program's code; use ulimit -v unlimited\n", __LINE__, __func__,
                     (uint64_t)limit.rlim_cur / 1024, BLAS_BYTES / MIB);
    (void)!write(STDERR_FILENO, line, (size_t)n);
    _exit(1);
}
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(void) = look_at_address_space;

/* ---- before Open MPI ---- */

static enum status look_at_limit(int resource, uint64_t needed, const char *command, uint64_t unit, const char *what) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) return OK;
    return FAIL(E_IO, "`%s` is %" PRIu64 ", and Open MPI needs %" PRIu64 " %s; raise it", command,
                (uint64_t)limit.rlim_cur / unit, needed / unit, what);
}

static enum status look_at_folder(const char *folder, uint64_t needed, enum status code, const char *remedy) {
    struct statvfs info;
    if (access(folder, F_OK) != 0) return OK; /* Open MPI makes the folder, or reports that it cannot */
    if (access(folder, W_OK | X_OK) != 0 || statvfs(folder, &info) != 0)
        return FAIL(code, "%s cannot be written to: %s; %s", folder, strerror(errno), remedy);
    uint64_t room = (uint64_t)info.f_bavail * info.f_frsize;
    if (room >= needed) return OK;
    return FAIL(code, "%s has %.1f MiB left, and Open MPI needs %.1f MiB there; %s", folder, (double)room / MIB,
                (double)needed / MIB, remedy);
}

enum status limits_look(int n_ranks) {
    const char *files = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    uint64_t n = (uint64_t)n_ranks;
    TRY(look_at_limit(RLIMIT_NOFILE, OPEN_FILES + OPEN_FILES_A_RANK * n, "ulimit -n", 1, "open files"));
    TRY(look_at_limit(RLIMIT_FSIZE, FILE_BYTES, "ulimit -f", 1024, "kB in a file"));
    if (!getenv("OMPI_MCA_orte_tmpdir_base"))
        TRY(look_at_folder(files, FILES_BYTES, E_IO, "set TMPDIR to a folder with room"));
    if (getenv("OMPI_MCA_btl_vader_backing_directory") || access("/dev/shm", W_OK) != 0) return OK;
    return look_at_folder("/dev/shm", n * SEGMENT_BYTES, E_MEMORY,
                          "use fewer ranks, mount it larger (docker: --shm-size), or set "
                          "OMPI_MCA_btl_vader_backing_directory");
}

enum status limits_look_alone(void) {
    bool rank = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_NAMESPACE") || getenv("PMI_RANK");
    return rank ? OK : limits_look(1);
}
