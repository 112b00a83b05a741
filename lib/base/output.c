#include "lib/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int output_open(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd >= 0) (void)fcntl(fd, F_SETFL, flags & O_APPEND);
    return fd;
}

FILE *output_file(const char *path, const char *mode) {
    int fd = output_open(path, O_WRONLY | O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC));
    FILE *file = fd < 0 ? NULL : fdopen(fd, mode);
    if (file || fd < 0) return file;
    int error = errno;
    close(fd);
    errno = error;
    return NULL;
}

const char *output_why(int error) {
    return error == ENXIO ? "it is a pipe that no process reads; start its reader first" : strerror(error);
}
