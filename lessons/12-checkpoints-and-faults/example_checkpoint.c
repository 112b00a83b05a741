/* ranks: 4
 *
 * A checkpoint in its simplest form: each of four ranks holds and saves a quarter of a vector, and any number of ranks
 * loads it.
 *
 *     rank 0   a b c      file rank-0   "0 3  a b c"              of 3 readers, reader 1 needs elements 4 .. 8:
 *     rank 1   d e f      file rank-1   "3 3  d e f"                  from rank-1   e f
 *     rank 2   g h i      file rank-2   "6 3  g h i"                  from rank-2   g h
 *     rank 3   j k l      file rank-3   "9 3  j k l"
 *
 * A file describes its piece of the whole vector, and nothing of the layout that wrote it. A reader reads from every
 * file the elements that its own piece shares with the file's.
 *
 * The order of writes makes a save safe. Every rank writes and flushes its own file; then the ranks agree that all
 * files are complete; only then rank 0 writes `latest`, which readers read first. If a job is killed before, its files
 * are never read. atomic_replace (the reference of this lesson's exercise) writes each file: a temporary file, flushed
 * and renamed. Its disk is a real folder, by the six functions below.
 *
 * lib/checkpoint/checkpoint_save.c does this for every tensor of a GPT and both of its moments; lib/device/piece.h has
 * pieces of more than one axis. */
#include "lessons/12-checkpoints-and-faults/atomic/atomic.h"

#include "lib/comm/comm.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N = 12, PATH = 256 };
struct piece { int first, n; double x[N]; };

/* ---- a folder as a disk ---- */
static const char *path_of(const char *folder, const char *name) {
    static _Thread_local char path[2][PATH];
    static _Thread_local int at;
    at = 1 - at;                                                      /* two buffers, because rename needs two paths */
    snprintf(path[at], PATH, "%s/%s", folder, name);
    return path[at];
}
static enum status done(bool ok, const char *what, const char *name) {
    return ok ? OK : FAIL(E_IO, "%s %s: %s", what, name, strerror(errno));
}

static enum status with(const char *path, int flags, const void *data, int64_t bytes, bool flush, const char *what) {
    int fd = open(path, flags | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && (!data || write(fd, data, (size_t)bytes) == bytes) && (!flush || fsync(fd) == 0);
    enum status status = done(ok, what, path);
    if (fd >= 0) close(fd);
    return status;
}
static enum status create(void *folder, const char *name) {
    return with(path_of(folder, name), O_WRONLY | O_CREAT | O_TRUNC, NULL, 0, false, "create");
}
static enum status append(void *folder, const char *name, const void *data, int64_t bytes) {
    return with(path_of(folder, name), O_WRONLY | O_APPEND, data, bytes, false, "write");
}
static enum status flush(void *folder, const char *name) {
    return with(path_of(folder, name), O_WRONLY, NULL, 0, true, "flush");
}
static enum status flush_folder(void *folder) { return with(folder, O_RDONLY | O_DIRECTORY, NULL, 0, true, "flush"); }
static enum status move(void *folder, const char *from, const char *to) {
    return done(rename(path_of(folder, from), path_of(folder, to)) == 0, "rename", from);
}
static enum status take_away(void *folder, const char *name) {
    return done(unlink(path_of(folder, name)) == 0, "remove", name);
}

/* ---- saving ---- */
static double value(int i) { return i * i + 0.5; }

static enum status save(const struct disk *disk) {
    char name[ATOMIC_NAME];
    int rank = comm_world_rank(), n = N / comm_world_size();
    struct piece mine = {.first = rank * n, .n = n};
    for (int i = 0; i < n; i++) mine.x[i] = value(mine.first + i);
    snprintf(name, sizeof name, "rank-%d", rank);
    /* no rank continues unless all files are complete */
    TRY(fail_agree(group_world(), atomic_replace(disk, name, &mine, sizeof mine)));
    snprintf(name, sizeof name, "%d files\n", comm_world_size());
    bool writes_latest = comm_is_rank_0();
    return fail_agree(group_world(), writes_latest ? atomic_replace(disk, "latest", name, (int64_t)strlen(name)) : OK);
}

/* ---- loading, as reader r of n ---- */
static enum status load(const char *folder, int r, int n, double x[N], int *n_shared) {
    int n_files = 0, first = N * r / n, end = N * (r + 1) / n;
    FILE *f = fopen(path_of(folder, "latest"), "r");
    if (!f || fscanf(f, "%d files", &n_files) != 1) n_files = 0;
    if (f) fclose(f);
    for (int i = 0; i < n_files; i++) {
        char name[ATOMIC_NAME];
        struct piece p;
        snprintf(name, sizeof name, "rank-%d", i);
        f = fopen(path_of(folder, name), "rb");
        bool whole = f && fread(&p, sizeof p, 1, f) == 1 && p.first >= 0 && p.n >= 0 && p.n <= N && p.first <= N - p.n;
        if (f) fclose(f);
        if (!whole) return FAIL(E_FORMAT, "%s/%s is not a whole piece of %d elements", folder, name, N);
        for (int e = p.first; e < p.first + p.n; e++) {
            if (e < first || e >= end) continue;
            x[e] = p.x[e - p.first];
            ++*n_shared;
        }
    }
    return OK;
}

static enum status load_everywhere(const char *folder) {
    static const int layouts[] = {4, 1, 2, 3, 5};
    for (int k = 0; k < 5; k++) {
        double x[N] = {0};
        int n_shared = 0, wrong = 0;
        for (int r = 0; r < layouts[k]; r++) TRY(load(folder, r, layouts[k], x, &n_shared));
        for (int i = 0; i < N; i++) wrong += !(x[i] == value(i));
        if (comm_is_rank_0()) printf("  read by %d: %d elements found, %d wrong\n", layouts[k], n_shared, wrong);
        if (wrong || n_shared != N)
            return FAIL(E_INTERNAL, "%d of %d elements found and %d wrong by %d readers", n_shared, N, wrong,
                        layouts[k]);
    }
    return OK;
}

static enum status checkpoint(void) {
    char folder[PATH] = "/tmp/trivium-example-XXXXXX";
    struct disk disk = {folder, create, append, flush, move, take_away, flush_folder};
    if (N % comm_world_size())
        return FAIL(E_CONFIG, "%d ranks do not divide %d elements; use 1, 2, 3, 4 or 6", comm_world_size(), N);
    bool made = !comm_is_rank_0() || mkdtemp(folder);
    TRY(fail_agree(group_world(), made ? OK : FAIL(E_IO, "cannot make %s: %s", folder, strerror(errno))));
    TRY(comm_broadcast(group_world(), folder, PATH, UINT8, 0));
    TRY(save(&disk));
    if (comm_is_rank_0())
        printf("%d elements saved by %d ranks, %d bytes each\n", N, comm_world_size(),
               (int)(N / comm_world_size() * sizeof(double)));
    TRY(fail_agree(group_world(), load_everywhere(folder)));
    char name[ATOMIC_NAME];
    snprintf(name, sizeof name, "rank-%d", comm_world_rank());
    TRY(fail_agree(group_world(), take_away(folder, name)));
    return comm_is_rank_0() ? done(take_away(folder, "latest") == OK && rmdir(folder) == 0, "remove", folder) : OK;
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), checkpoint());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("any number of writers, any number of readers: the same elements\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
