#define _GNU_SOURCE /* syncfs */
#include "lib/base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum status flush(const char *path, int how(int)) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return FAIL(E_IO, "cannot open %s to flush it: %s", path, strerror(errno));
    int failed = how(fd) != 0 ? errno : 0;
    close(fd);
    return failed ? FAIL(E_IO, "flushing %s to the disk: %s", path, strerror(failed)) : OK;
}

enum status durable_folder(const char *path) { return flush(path, fsync); }

/* The parent folder: "a/b" for "a/b/c" and "a/b/c/", "." for "c", "/" for "/c". */
static enum status folder_of(const char *path, char out[PATH_MAX]) {
    int n = (int)strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    while (n > 1 && path[n - 1] == '/') n--;
    if (n == 0) path = ".", n = 1;
    if (n >= PATH_MAX) return FAIL(E_CONFIG, "a path of %d bytes is too long; the limit is %d", n, PATH_MAX - 1);
    snprintf(out, PATH_MAX, "%.*s", n, path);
    return OK;
}

/* A folder without read permission cannot be opened for fsync. The new file in it can be opened, and syncfs of this
 * file flushes the whole file system. */
enum status durable_name(const char *path) {
    char folder[PATH_MAX];
    TRY(folder_of(path, folder));
    return access(folder, R_OK) == 0 ? durable_folder(folder) : flush(path, syncfs);
}
