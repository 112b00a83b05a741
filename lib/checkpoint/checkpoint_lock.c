/* The lock is flock's, on SAVE/.lock. The kernel releases it when the process ends, so the lock of a dead job blocks no
 * other. NFS passes it on to its server, which releases it some time after a host has died. The file names the process
 * that has the lock, for the error message of another job.
 *
 * Some file systems have no locks (Lustre, as it is often mounted). There only the text in the file protects the
 * folder. It has the start time of the process too, because process ids are used again. It proves nothing about
 * processes on other hosts, so the user is warned.
 *
 * When rank 0's host falls silent, an elastic job goes on in a new epoch, with another rank 0. The old rank 0 may still
 * run, frozen or behind a cut network, and hold the lock. So the file's second line has the job and the epoch. The rank
 * 0 of a newer epoch of the same job does not wait: it makes and locks a new file, and renames it to .lock. The old
 * rank 0 still has a lock, on a file without a name. Before each change of the folder the old rank 0 reads .lock again,
 * and finds that it has been replaced (checkpoint_lock_check). If it freezes after this check, it may still make one
 * change late: rename an older step into place, or make `latest` name an older step, until the next save. */
#include "lib/checkpoint/checkpoint_lock.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/shared.h"
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/comm/comm.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct checkpoint_lock { int fd; };

enum { HOST_BYTES = 65, TEXT_BYTES = 256 };
static const double wait_s = 2;

/* ---- the holder of the lock ---- */

/* The start time of a process of this host, in kernel ticks; 0: no such process. */
static unsigned long long started(long pid) {
    char path[64], text[1024] = "";
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')');                        /* field 2, the name, may contain blanks and brackets */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &ticks) == 1 ? ticks : 0;
}

static void host_name(char host[HOST_BYTES]) {
    if (gethostname(host, HOST_BYTES) != 0) snprintf(host, HOST_BYTES, "unknown");
    host[HOST_BYTES - 1] = 0;
}

/* The name of this job, from `launch`; "": it has none, and takes over no lock. */
static const char *own_job(void) {
    const char *job = getenv("TRIVIUM_JOB");
    return job && !strchr(job, ' ') ? job : "";
}

static void own_text(char text[TEXT_BYTES]) {
    char host[HOST_BYTES], since[32] = "";
    time_t now = time(NULL);
    struct tm local;
    host_name(host);
    if (localtime_r(&now, &local)) strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &local);
    int n = snprintf(text, TEXT_BYTES, "%s %ld %llu %s\n", host, (long)getpid(), started(getpid()), since);
    if (*own_job()) snprintf(text + n, (size_t)(TEXT_BYTES - n), "epoch %d of %.63s\n", comm_epoch(), own_job());
}

struct owner { char host[HOST_BYTES], since[32]; long pid; unsigned long long started; };

static bool read_owner(const char *text, struct owner *o) {
    return sscanf(text, "%64s %ld %llu %31[^\n]", o->host, &o->pid, &o->started, o->since) == 4;
}

static bool is_here(const struct owner *o) {
    char host[HOST_BYTES];
    host_name(host);
    return strcmp(host, o->host) == 0;
}

/* The number of epochs by which the owner of the lock is behind this rank; 0: the owner is of another job. */
static int epochs_behind(const char *text) {
    const char *line = strchr(text, '\n');
    char job[64];
    int epoch;
    if (!line || sscanf(line + 1, "epoch %d of %63s", &epoch, job) != 2 || strcmp(job, own_job()) != 0) return 0;
    return comm_epoch() - epoch;
}

bool checkpoint_owner_lives(const char *text) {
    struct owner o;
    return read_owner(text, &o) && is_here(&o) && o.started != 0 && started(o.pid) == o.started;
}

static enum status is_used(const char *save, const char *text) {
    struct owner o;
    if (!read_owner(text, &o))
        return FAIL(E_IO, "%s is used by another job, whose name is not in %s/.lock; wait for its end, or give --save "
                    "another folder", save, save);
    return FAIL(E_IO, "%s is used by another job: process %ld on host %s, since %s; wait for its end, stop it, or give "
                "--save another folder", save, o.pid, o.host, o.since);
}

/* ---- taking the lock ---- */

static bool has_name(int fd, const char *path) {
    struct stat file, named;
    return fstat(fd, &file) == 0 && stat(path, &named) == 0 && file.st_ino == named.st_ino &&
           file.st_dev == named.st_dev;
}

/* Try to lock the file. text: its content. *why: 0: locked; EWOULDBLOCK: another process has it; other values: the file
 * system has no locks. */
static enum status try_file(const char *path, int *fd, char text[TEXT_BYTES], int *why) {
    memset(text, 0, TEXT_BYTES);
    *fd = shared_open(path, SHARED_UPDATE, 0666);
    if (*fd < 0)
        return FAIL(E_IO, "cannot write %s: %s; point --save at a writable directory", path, shared_why(errno));
    *why = flock(*fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno == EINTR ? EWOULDBLOCK : errno;
    if (!has_name(*fd, path)) *why = EWOULDBLOCK;                    /* another process has replaced the file */
    if (pread(*fd, text, TEXT_BYTES - 1, 0) >= 0) return OK;
    return FAIL(E_IO, "cannot read %s: %s", path, strerror(errno));
}

static bool write_own(int fd) {
    char text[TEXT_BYTES];
    own_text(text);
    return ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text);
}

static enum status read_lock(const char *save, char text[TEXT_BYTES]) {
    char path[CHECKPOINT_PATH_MAX];
    memset(text, 0, TEXT_BYTES);
    TRY(checkpoint_path(save, ".lock", path));
    int fd = shared_open(path, SHARED_READ, 0);
    bool read = fd >= 0 && pread(fd, text, TEXT_BYTES - 1, 0) >= 0;
    int error = errno;
    if (fd >= 0) close(fd);
    return read || error == ENOENT ? OK : FAIL(E_IO, "cannot read %s: %s", path, shared_why(error));
}

/* Take the lock over from an older epoch of this job. If two newer epochs try at once, only one gets the new file. */
static enum status take_over(const char *save, const char *path, int *fd, int *why) {
    char text[TEXT_BYTES], beside[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_path(save, ".lock-taken-over", beside));
    TRY(try_file(beside, fd, text, why));
    if (*why == EWOULDBLOCK) return OK;
    TRY(read_lock(save, text));
    if (epochs_behind(text) <= 0) *why = EWOULDBLOCK;
    else if (!write_own(*fd) || rename(beside, path) != 0)
        return FAIL(E_IO, "cannot take over %s: %s", path, strerror(errno));
    else *why = 0;
    return OK;
}

static enum status take_by_text(const char *save, const char *text) {
    struct owner o;
    if (checkpoint_owner_lives(text)) return is_used(save, text);
    if (read_owner(text, &o) && !is_here(&o))
        log_warn("%s is in a file system without locks, and process %ld on host %s was the last to use it: it must "
                 "have ended", save, o.pid, o.host);
    return OK;
}

/* Try once to take the lock. If that fails, the caller closes *fd. */
static enum status take(const char *save, const char *path, int *fd, char text[TEXT_BYTES], int *why) {
    TRY(try_file(path, fd, text, why));
    if (*why == 0) return OK;
    if (epochs_behind(text) > 0) {
        close(*fd);
        *fd = -1;
        return take_over(save, path, fd, why);
    }
    if (*why == EWOULDBLOCK) return OK;
    *why = 0;
    return take_by_text(save, text);
}

static enum status take_within(const char *save, const char *path, int *fd) {
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    char text[TEXT_BYTES];
    for (double end = clock_s() + wait_s;; nanosleep(&pause, NULL)) {
        int why = 0;
        enum status status = take(save, path, fd, text, &why);
        if (status == OK && why == 0) return OK;
        if (*fd >= 0) close(*fd);                                    /* its text names another job */
        *fd = -1;
        TRY(status);
        if (clock_s() >= end) return is_used(save, text);
    }
}

enum status checkpoint_lock(const char *save, struct checkpoint_lock **out) {
    char path[CHECKPOINT_PATH_MAX];
    struct checkpoint_lock *l = *out = NULL;
    TRY(checkpoint_path(save, ".lock", path));
    TRY(checkpoint_make_folder(save));
    if (!(l = calloc(1, sizeof *l))) return FAIL(E_MEMORY, "no memory to lock %s", save);
    enum status status = take_within(save, path, &l->fd);
    if (status != OK) {
        free(l);
        return status;
    }
    *out = l;
    bool written = write_own(l->fd); /* before anything else: with the old text, an older epoch could take it over */
    status = checkpoint_restore_name(save);
    if (status != OK) {
        checkpoint_unlock(out);
        return status;
    }
    (void)checkpoint_remove_unfinished(save);            /* if a leftover gets in the way later, that step reports it */
    status_clear();
    if (!written) (void)write_own(l->fd);        /* a full disk may have had no room; the text is for other jobs */
    return OK;
}

enum status checkpoint_lock_check(const char *save) {
    char text[TEXT_BYTES];
    TRY(read_lock(save, text));
    return epochs_behind(text) >= 0 ? OK : FAIL(E_EPOCH, "%s is written by the rank 0 of a newer epoch", save);
}

void checkpoint_unlock(struct checkpoint_lock **lock) {
    struct checkpoint_lock *l = *lock;
    if (!l) return;
    bool emptied = ftruncate(l->fd, 0) == 0;                         /* while we hold the lock */
    (void)emptied;
    close(l->fd);
    free(l);
    *lock = NULL;
}
