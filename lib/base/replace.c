#include "lib/base/replace.h"

#include "lib/base/output.h"
#include "lib/base/shared.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* target: the path with symbolic links resolved; fresh: target + ".new". @return false: a path is too long */
static bool names_of(const char *path, char target[PATH_MAX], char fresh[PATH_MAX]) {
    if (!realpath(path, target) && snprintf(target, PATH_MAX, "%s", path) >= PATH_MAX) return false;
    return snprintf(fresh, PATH_MAX, "%s.new", target) < PATH_MAX;
}

/* Is this a file that must be written directly: a pipe, a device, or an open descriptor below /dev or /proc? */
static bool is_borrowed(const char *path, const struct stat *info) {
    return !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) || !S_ISREG(info->st_mode);
}

FILE *replace_begin(const char *path) {
    char target[PATH_MAX], fresh[PATH_MAX];
    struct stat info = {.st_mode = S_IFREG};
    bool is_there = stat(path, &info) == 0;
    if (is_borrowed(path, &info)) return output_file(path, "w");
    if (!names_of(path, target, fresh)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    FILE *f = shared_create(fresh);
    if (f && is_there) (void)!fchmod(fileno(f), info.st_mode & 07777);
    bool locked_folder = !f && is_there && (errno == EACCES || errno == EPERM);
    return locked_folder ? output_file(path, "w") : f;               /* the file is writable, but no file can be
                                                                        created next to it */
}

static bool is_named(const FILE *f, const char *name) {
    struct stat file, named;
    return fstat(fileno((FILE *)f), &file) == 0 && stat(name, &named) == 0 && file.st_ino == named.st_ino &&
           file.st_dev == named.st_dev;
}

bool replace_end(const char *path, FILE *file, bool keep) {
    char target[PATH_MAX], fresh[PATH_MAX];
    bool apart = names_of(path, target, fresh) && is_named(file, fresh), whole = fflush(file) == 0 && !ferror(file);
    int why = errno;
    if (fclose(file) != 0 && whole) whole = false, why = errno;
    if (apart && whole && keep) {
        whole = rename(fresh, target) == 0;
        why = errno;
    }
    if (apart && !(whole && keep)) unlink(fresh);
    errno = why;
    return whole;
}
