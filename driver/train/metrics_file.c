/* The file of metrics, and its lock.
 *
 * A job that is refused, or has nothing left to do, must not change the rows of an earlier run, and two jobs must not
 * write one file. So a job locks the file at its start (flock, which the kernel releases when the process ends), and
 * writes nothing before its first row. Then the job appends, or sets the earlier run's file aside:
 *
 *     metrics.jsonl.new   create and lock a new file
 *     metrics-1.jsonl     link the old file to the first free name
 *     metrics.jsonl       rename the new file to the old name, so that a file of this name always exists
 *
 * A job that has waited for the lock checks that its file still has the name. If the file system has no locks, the rows
 * of two jobs alternate, because each write goes to the end (O_APPEND). Pipes and devices are not locked. */
#define _GNU_SOURCE /* asprintf */
#include "driver/train/metrics.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/output.h"
#include "lib/base/shared.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double wait_s = 2;          /* the job that holds the lock may be about to end */

/* A full or failing disk is E_IO, because the command is correct. */
static enum status cannot(const char *path) {
    const bool is_mistaken = errno != ENOSPC && errno != EDQUOT && errno != EIO;
    return FAIL(is_mistaken ? E_USAGE : E_IO,
                "cannot write metrics=%s: %s; give another path, or an empty one for none", path, output_why(errno));
}

static bool is_regular(int fd) {
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

static bool has_name(int fd, const char *path) {
    struct stat file, named;
    return fstat(fd, &file) == 0 && stat(path, &named) == 0 && file.st_ino == named.st_ino &&
           file.st_dev == named.st_dev;
}

static bool is_locked_elsewhere(int fd) { return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

/* Try once. *is_new: this call made the file. */
static int open_end(const char *path, bool *is_new) {
    const int flags = O_WRONLY | O_APPEND;
    int fd = output_open(path, flags | O_CREAT | O_EXCL);
    *is_new = fd >= 0;
    return fd >= 0 || errno != EEXIST ? fd : output_open(path, flags | O_CREAT);   /* O_CREAT: for a dangling link */
}

static enum status open_locked(const char *path, bool take_over, int *fd, bool *is_new) {
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (double end = clock_s() + wait_s;; nanosleep(&pause, NULL)) {
        *fd = open_end(path, is_new);
        if (*fd < 0) return cannot(path);
        if (!is_regular(*fd)) return OK;
        bool ours = !is_locked_elsewhere(*fd) || take_over;
        if (ours && has_name(*fd, path)) return OK;
        close(*fd);
        if (clock_s() >= end)
            return FAIL(E_IO, "metrics=%s: another job writes this file; wait for its end, stop it, or give --metrics "
                              "another file", path);
    }
}

/* A device or a shell's redirection must not be renamed. */
static bool is_borrowed(const char *path) { return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6); }

/* A symbolic link stays, and its target is renamed: return the target's path. The caller frees the path. */
static char *behind_link(const char *path) {
    struct stat info;
    bool is_link = !is_borrowed(path) && lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    char *target = is_link ? realpath(path, NULL) : NULL;
    return target ? target : strdup(path);
}

enum status metrics_open(struct metrics *m, const char *path, struct metrics_manner how) {
    *m = (struct metrics){.appends = how.append || is_borrowed(path)};
    if (!path[0]) return OK;
    m->path = behind_link(path);
    if (!m->path) return FAIL(E_MEMORY, "no memory for the path of metrics");
    int fd;
    TRY(open_locked(m->path, how.take_over, &fd, &m->is_new));
    m->appends |= !is_regular(fd);
    m->file = fdopen(fd, "a");
    if (m->file) return OK;
    close(fd);
    return FAIL(E_MEMORY, "no memory to write metrics=%s", path);
}

/* ---- the first row ---- */

/* The n-th name for a file set aside: run/metrics-1.jsonl of run/metrics.jsonl. The caller frees the name. */
static char *other_name(const char *path, int n) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char *name = NULL;
    if (!dot || (slash && dot < slash) || dot == path || dot[-1] == '/') dot = path + strlen(path);
    return asprintf(&name, "%.*s-%d%s", (int)(dot - path), path, n, dot) < 0 ? NULL : name;
}

/* Link; on a file system without links rename, so that for a moment no file has the name `path`. */
static bool give_name(const char *path, const char *name) {
    if (link(path, name) == 0) return true;
    if (errno == EEXIST || access(name, F_OK) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(path, name) == 0;
}

static bool set_aside(const char *path) {
    for (int n = 1; n < 1000000; n++) {
        char *name = other_name(path, n);
        bool given = name && give_name(path, name);
        if (given) log_info("the metrics of an earlier run are in %s now", name);
        free(name);
        if (given) return true;
        if (errno != EEXIST) return false;
    }
    return false;
}

static bool start_again(struct metrics *m) {
    char *fresh;
    if (asprintf(&fresh, "%s.new", m->path) < 0) return false;
    int fd = shared_open(fresh, SHARED_NEW, 0666);
    FILE *f = fd >= 0 && fcntl(fd, F_SETFL, O_APPEND) == 0 ? fdopen(fd, "a") : NULL;
    bool done = f && !is_locked_elsewhere(fd) && set_aside(m->path) && rename(fresh, m->path) == 0;
    int why = errno;
    if (done) {
        fclose(m->file);
        m->file = f;
    } else if (fd >= 0) {
        unlink(fresh);
        if (f) fclose(f);
        else close(fd);
    }
    free(fresh);
    errno = why;
    return done;
}

/* After an incomplete line, which a process killed while writing leaves, the next row must begin with a line end. */
static bool ends_in_half_a_line(const char *path) {
    char last = '\n';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    off_t end = lseek(fd, 0, SEEK_END);
    if (end > 0 && pread(fd, &last, 1, end - 1) != 1) last = '\n';
    close(fd);
    return last != '\n';
}

bool metrics_begin(struct metrics *m) {
    struct stat info;
    if (m->has_begun) return true;
    bool has_rows = fstat(fileno(m->file), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    if (has_rows && !m->appends && !start_again(m)) return false;
    if (has_rows && m->appends) m->cut_off = ends_in_half_a_line(m->path);
    return m->has_begun = true;
}

void metrics_close(struct metrics *m) {
    if (m->file && m->is_new && !m->has_begun && has_name(fileno(m->file), m->path)) unlink(m->path);
    if (m->file) fclose(m->file);
    free(m->path);
    *m = (struct metrics){.file = NULL};
}
