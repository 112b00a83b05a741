#include "lib/checkpoint/checkpoint_ready.h"

#include "lib/base/clock.h"
#include "lib/base/shared.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The name of a probe file. Prune and resolve do not take it for a step, and a probe of a killed job is overwritten. */
static enum status probe_path(const char *save, int rank, char out[CHECKPOINT_PATH_MAX]) {
    char name[32];
    snprintf(name, sizeof name, ".probe-%05d", rank);
    return checkpoint_path(save, name, out);
}

/* Is there room for the longest name that a save can need (a step number with the most digits)? */
static enum status names_fit(const char *save) {
    char step[CHECKPOINT_PATH_MAX], shard[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_step_path(save, INT64_C(999999999999999999), true, step));
    return checkpoint_shard_path(step, comm_world_size(), shard);
}

static bool write_all(int fd, const char *bytes, int64_t n) {
    while (n > 0) {
        ssize_t done = write(fd, bytes, (size_t)n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes += done;
        n -= done;
    }
    return true;
}

static enum status write_probe(const char *path, int64_t bytes) {
    char *text = malloc((size_t)bytes);
    if (!text) return FAIL(E_MEMORY, "no memory for %lld bytes to write to %s", (long long)bytes, path);
    memset(text, 'x', (size_t)bytes);
    int fd = shared_open(path, SHARED_NEW, 0666);
    bool ok = fd >= 0 && write_all(fd, text, bytes) && fsync(fd) == 0;
    int why = errno;
    if (fd >= 0) close(fd);
    free(text);
    return ok ? OK : FAIL(E_IO, "cannot write %s: %s; point --save at a writable directory", path, shared_why(why));
}

/* Does this rank see rank 0's file? If not, the file system is local, and each host would keep only its own files. */
static enum status see_rank_0(const char *save) {
    char path[CHECKPOINT_PATH_MAX];
    TRY(probe_path(save, 0, path));
    if (access(path, R_OK) == 0) return OK;
    return FAIL(E_IO,
                "rank 0 has written %s, and it is not here: %s; give --save a place in a file system that all hosts "
                "share",
                path, strerror(errno));
}

static enum status free_room(const char *save, double *bytes) {
    struct statvfs info;
    if (statvfs(save, &info) != 0) return FAIL(E_IO, "cannot ask how much room %s has: %s", save, strerror(errno));
    *bytes = (double)info.f_bavail * (double)info.f_frsize;
    return OK;
}

static enum status make_and_write(const char *save, const char *mine, int64_t bytes) {
    TRY(checkpoint_make_folder(save));
    return write_probe(mine, bytes);
}

enum status checkpoint_ready(const char *save, int64_t probe_bytes, fail_agreement *agree,
                             struct checkpoint_ready *out) {
    char mine[CHECKPOINT_PATH_MAX];
    const struct group *world = group_world();
    TRY(agree(world, names_fit(save)));
    TRY(agree(world, probe_path(save, comm_world_rank(), mine)));
    double start = clock_s();
    enum status status = agree(world, make_and_write(save, mine, probe_bytes));
    if (status == OK) status = agree(world, see_rank_0(save));
    out->probe_s = clock_s() - start;
    if (status == OK) status = agree(world, free_room(save, &out->free_bytes));
    unlink(mine);
    return status;
}

enum status checkpoint_room(const char *save, double free_bytes, double checkpoint_bytes, bool *tight) {
    *tight = free_bytes < 2 * checkpoint_bytes;
    if (free_bytes >= checkpoint_bytes) return OK;
    return FAIL(E_IO,
                "%s has room for %.1f MiB, and a checkpoint takes %.1f MiB; make room, or give --save another place",
                save, free_bytes / (1 << 20), checkpoint_bytes / (1 << 20));
}
