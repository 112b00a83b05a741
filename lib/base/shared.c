#include "lib/base/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

/* A file with a second hard link may be another user's file in another folder: reading is allowed, writing is not. */
static int why_not(int fd, enum shared_use use) {
    struct stat file;
    if (fstat(fd, &file) != 0) return errno;
    if (!S_ISREG(file.st_mode)) return EINVAL;
    return use == SHARED_UPDATE && file.st_nlink > 1 ? EMLINK : 0;
}

int shared_open(const char *path, enum shared_use use, mode_t mode) {
    static const int flags[] = {[SHARED_READ] = O_RDONLY, [SHARED_UPDATE] = O_RDWR | O_CREAT,
                                [SHARED_NEW] = O_RDWR | O_CREAT | O_EXCL};
    if (use == SHARED_NEW && unlink(path) != 0 && errno != ENOENT) return -1;
    int fd = open(path, flags[use] | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
    int error = fd < 0 ? 0 : why_not(fd, use);
    if (error == 0) return fd;
    close(fd);
    errno = error;
    return -1;
}

FILE *shared_create(const char *path) {
    int fd = shared_open(path, SHARED_NEW, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file || fd < 0) return file;
    int error = errno;
    close(fd);
    errno = error;
    return NULL;
}

const char *shared_why(int error) {
    switch (error) {
    case ELOOP: return "it is a symbolic link, and is not followed; remove it";
    case EMLINK: return "the file has another name, too, and is not written to; remove this one";
    case EINVAL: case ENXIO: case EISDIR: return "it is no regular file; remove it";
    default: return strerror(error);
    }
}

/* ---- folders ---- */

enum status shared_folder_name(const char *parent, char *out, size_t size) {
    int n = snprintf(out, size, "%s/trivium-%u", parent, (unsigned)geteuid());
    return n > 0 && (size_t)n < size ? OK : FAIL(E_CONFIG, "the path of the folder %.64s... is too long; the limit is "
                                                 "%zu bytes", parent, size - 1);
}

/* Check the private folder. If its owner has given others access, reset its mode to 0700. */
static enum status look_at(const char *path) {
    struct stat is;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool seen = fd >= 0 && fstat(fd, &is) == 0;
    int error = errno;
    bool mine = seen && is.st_uid == geteuid();
    if (mine && (is.st_mode & 077) != 0) mine = seen = fchmod(fd, 0700) == 0, error = errno;
    if (fd >= 0) close(fd);
    if (mine) return OK;
    if (seen)
        return FAIL(E_IO, "the folder %s is another user's (%u)", path, (unsigned)is.st_uid);
    return FAIL(E_IO, "cannot use the folder %s: %s", path,
                error == ELOOP || error == ENOTDIR ? "it is a link, or no folder" : strerror(error));
}

enum status shared_folder(const char *parent, char *out, size_t size) {
    TRY(shared_folder_name(parent, out, size));
    if (mkdir(out, 0700) == 0 || errno == EEXIST) return look_at(out);
    return FAIL(E_IO, "cannot make the folder %s: %s", out, strerror(errno));
}
