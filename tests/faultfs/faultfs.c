/* To be preloaded (LD_PRELOAD). Of the calls that concern a path below FAULT_UNDER, number FAULT_AT (from 1) does
 * FAULT_HOW: it fails with eio, enospc or edquot; short: a write or read does half; kill: the process dies there.
 *
 *   FAULT_STICKY=1      and so do all calls after it
 *   FAULT_NOEXCHANGE=1  renameat2 cannot exchange two folders, as on NFS
 *   FAULT_RANK=0        only in the process of this rank
 *   FAULT_LOG=FILE      a line for each call */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int count;

static int below(const char *path) {
    char full[8300];
    const char *under = getenv("FAULT_UNDER"), *rank = getenv("FAULT_RANK"), *mine = getenv("OMPI_COMM_WORLD_RANK");
    if (!under || !path || (rank && (!mine || strcmp(rank, mine) != 0))) return 0;
    if (path[0] == '/') return strstr(path, under) != NULL;
    if (!getcwd(full, 4096)) return 0;
    snprintf(full + strlen(full), 4100, "/%s", path);
    return strstr(full, under) != NULL;
}

static const char *path_of(int fd) {
    static _Thread_local char path[4096];
    char link[64];
    if (fd <= STDERR_FILENO) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return NULL;
    path[n] = 0;
    return path;
}
static int fd_below(int fd) { return below(path_of(fd)); }
static int file_below(FILE *f) { return f && fd_below(fileno(f)); }

static void note(int n, const char *call, const char *path) {
    char line[600];
    const char *log = getenv("FAULT_LOG");
    if (!log) return;
    int k = snprintf(line, sizeof line, "%d %s %.400s\n", n, call, path ? path : "");
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, (size_t)k);
    syscall(SYS_close, fd);
}

/* 0: go on; -1: fail with errno; 1: do half */
static int hit(const char *call, const char *path) {
    const char *at = getenv("FAULT_AT"), *how = getenv("FAULT_HOW");
    int n = ++count, wanted = at ? atoi(at) : 0;
    note(n, call, path);
    if (wanted == 0 || !how || !(n == wanted || (getenv("FAULT_STICKY") && n > wanted))) return 0;
    if (!strcmp(how, "kill")) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
    if (!strcmp(how, "short")) return 1;
    errno = !strcmp(how, "enospc") ? ENOSPC : !strcmp(how, "edquot") ? EDQUOT : EIO;
    return -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILS(is_below, call, path) ((is_below) && hit(call, path) < 0)
#define TRANSFER(type, name, arguments, ...)                                                                           \
    type name arguments {                                                                                              \
        int h = fd_below(fd) ? hit(#name, NULL) : 0;                                                                   \
        if (h < 0) return -1;                                                                                          \
        if (h > 0 && n > 1) n /= 2;                                                                                    \
        return REAL(name)(__VA_ARGS__);                                                                                \
    }
TRANSFER(ssize_t, write, (int fd, const void *b, size_t n), fd, b, n)
TRANSFER(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), fd, b, n, o)
TRANSFER(ssize_t, read, (int fd, void *b, size_t n), fd, b, n)
TRANSFER(ssize_t, pread, (int fd, void *b, size_t n, off_t o), fd, b, n, o)

int fsync(int fd) { return FAILS(fd_below(fd), "fsync", path_of(fd)) ? -1 : REAL(fsync)(fd); }
int ftruncate(int fd, off_t n) { return FAILS(fd_below(fd), "ftruncate", NULL) ? -1 : REAL(ftruncate)(fd, n); }
int rename(const char *a, const char *b) { return FAILS(below(b), "rename", b) ? -1 : REAL(rename)(a, b); }
int mkdir(const char *p, mode_t m) { return FAILS(below(p), "mkdir", p) ? -1 : REAL(mkdir)(p, m); }
int rmdir(const char *p) { return FAILS(below(p), "rmdir", p) ? -1 : REAL(rmdir)(p); }
int unlink(const char *p) { return FAILS(below(p), "unlink", p) ? -1 : REAL(unlink)(p); }
int unlinkat(int d, const char *p, int f) { return FAILS(fd_below(d), "unlinkat", p) ? -1 : REAL(unlinkat)(d, p, f); }
int statvfs(const char *p, struct statvfs *v) { return FAILS(below(p), "statvfs", p) ? -1 : REAL(statvfs)(p, v); }

int renameat2(int c, const char *a, int d, const char *b, unsigned f) {
    if (below(b) && f && getenv("FAULT_NOEXCHANGE")) return errno = EINVAL, -1;
    return FAILS(below(b), "renameat2", b) ? -1 : REAL(renameat2)(c, a, d, b, f);
}

/* An open file is closed all the same. */
int close(int fd) {
    int fails = FAILS(fd_below(fd), "close", NULL), error = errno, code = REAL(close)(fd);
    return fails ? errno = error, -1 : code;
}
int fclose(FILE *f) {
    int fails = FAILS(file_below(f), "fclose", NULL), error = errno, code = REAL(fclose)(f);
    return fails ? errno = error, EOF : code;
}
int fputs(const char *s, FILE *f) { return FAILS(file_below(f), "fputs", NULL) ? EOF : REAL(fputs)(s, f); }
int fflush(FILE *f) { return FAILS(file_below(f), "fflush", NULL) ? EOF : REAL(fflush)(f); }
FILE *fopen(const char *p, const char *m) { return FAILS(below(p), "fopen", p) ? NULL : REAL(fopen)(p, m); }

#define OPEN(name)                                                                                                     \
    int name(const char *p, int f, ...) {                                                                              \
        va_list more;                                                                                                  \
        va_start(more, f);                                                                                             \
        mode_t mode = f & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                          \
        va_end(more);                                                                                                  \
        return FAILS(below(p), "open", p) ? -1 : REAL(name)(p, f, mode);                                               \
    }
OPEN(open)
OPEN(open64)
