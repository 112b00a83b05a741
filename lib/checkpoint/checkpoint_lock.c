/* The lock is flock's, on SAVE/.lock. The kernel releases it when the process ends, so the lock of a dead job blocks no
 * other. NFS passes it on to its server, which releases it some time after a host has died. The file says which process
 * has the lock, for the line that refuses another job.
 *
 * Some file systems have no locks (Lustre, as it is often mounted). There the text alone has to do. It has the start
 * time of the process too, because process ids are used again. Of processes on other hosts it proves nothing: the user
 * is warned. */
#include "lib/checkpoint/checkpoint_lock.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint_files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

struct checkpoint_lock { int fd; };

enum { HOST_BYTES = 65, TEXT_BYTES = 256 };
static const double wait_s = 2;

/* ---- who has it ---- */

/* Of a process of this host: when it was started, in the kernel's ticks; 0: there is none. */
static unsigned long long started(long pid) {
    char path[64], text[1024] = "";
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')');                             /* field 2, a name, may hold blanks and brackets */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", &ticks) == 1 ? ticks : 0;
}

static void host_name(char host[HOST_BYTES]) {
    if (gethostname(host, HOST_BYTES) != 0) snprintf(host, HOST_BYTES, "unknown");
    host[HOST_BYTES - 1] = 0;
}

static void own_text(char text[TEXT_BYTES]) {
    char host[HOST_BYTES], since[32] = "";
    time_t now = time(NULL);
    struct tm local;
    host_name(host);
    if (localtime_r(&now, &local)) strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(text, TEXT_BYTES, "%s %ld %llu %s\n", host, (long)getpid(), started(getpid()), since);
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

/* ---- taking it ---- */

/* 0, or the reason: EWOULDBLOCK is another process. */
static int take(int fd) {
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (double end = clock_s() + wait_s;; nanosleep(&pause, NULL)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
        if (errno != EINTR && (errno != EWOULDBLOCK || clock_s() >= end)) return errno;
    }
}

static enum status take_by_text(const char *save, const char *text) {
    struct owner o;
    if (checkpoint_owner_lives(text)) return is_used(save, text);
    if (read_owner(text, &o) && !is_here(&o))
        log_warn("%s is in a file system without locks, and process %ld on host %s was the last to use it: it must "
                 "have ended", save, o.pid, o.host);
    return OK;
}

static enum status take_file(const char *save, const char *path, int fd) {
    char text[TEXT_BYTES] = "";
    int why = take(fd);
    if (pread(fd, text, sizeof text - 1, 0) < 0) return FAIL(E_IO, "cannot read %s: %s", path, strerror(errno));
    if (why == EWOULDBLOCK) return is_used(save, text);
    if (why != 0) TRY(take_by_text(save, text));
    (void)checkpoint_remove_unfinished(save);                        /* what needs its name or its room says so later */
    status_clear();
    own_text(text);
    /* a full disk may have no room for it: it is for others to read, and the lock is taken without it */
    bool written = ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) > 0;
    (void)written;
    return OK;
}

enum status checkpoint_lock(const char *save, struct checkpoint_lock **out) {
    char path[CHECKPOINT_PATH_MAX];
    struct checkpoint_lock *l = *out = NULL;
    TRY(checkpoint_path(save, ".lock", path));
    TRY(checkpoint_make_folder(save));
    if (!(l = *out = calloc(1, sizeof *l))) return FAIL(E_MEMORY, "no memory to lock %s", save);
    l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    enum status status = OK;
    if (l->fd >= 0) status = take_file(save, path, l->fd);
    else status = FAIL(E_IO, "cannot write %s: %s; point --save at a writable directory", path, strerror(errno));
    if (status == OK) return OK;
    if (l->fd >= 0) close(l->fd);                                    /* its text is another's */
    free(l);
    *out = NULL;
    return status;
}

void checkpoint_unlock(struct checkpoint_lock **lock) {
    struct checkpoint_lock *l = *lock;
    if (!l) return;
    bool emptied = ftruncate(l->fd, 0) == 0;                         /* while it is ours */
    (void)emptied;
    close(l->fd);
    free(l);
    *lock = NULL;
}
