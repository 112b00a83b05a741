#include "lib/base/input.h"

#include "lib/base/kept.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Does the path name a file that this process has open? Then a pipe has, or had, a writer, and reading it ends. */
static bool is_ours(const char *path) {
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/proc/", 6);
}

/* The reason, in words, why fd must not be read; NULL if it may be read. */
static const char *why_not(int fd, const char *path, enum input_kind kind) {
    struct stat info;
    if (fstat(fd, &info) != 0) return strerror(errno);
    if (S_ISREG(info.st_mode)) return NULL;
    if (kind == INPUT_FILE) return "is not a regular file";
    if (S_ISDIR(info.st_mode)) return "is a directory; give a file in it";
    if (S_ISFIFO(info.st_mode) && !is_ours(path)) return "is a pipe; give a file, or <(...) in bash";
    return fcntl(fd, F_SETFL, 0) == 0 ? NULL : strerror(errno);      /* from now on reads wait for data */
}

enum status input_status(int error) {
    static const int of_path[] = {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, ENXIO};
    for (size_t i = 0; i < sizeof of_path / sizeof *of_path; i++)
        if (error == of_path[i]) return E_DATA;
    return E_IO;
}

enum status input_file(const char *what, const char *path, enum input_kind kind, FILE **out) {
    *out = NULL;
    if (kind & INPUT_KEPT) return kept_file(what, path, kind & ~INPUT_KEPT, out);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && input_status(errno) == E_IO)
        return FAIL(E_IO, "cannot read %s%.512s: %s", what, path, strerror(errno));
    if (fd < 0) return FAIL(E_DATA, "cannot read %s%.512s: %s; give a file that is there and may be read", what, path,
                            strerror(errno));
    const char *reason = why_not(fd, path, kind);
    if (!reason) *out = fdopen(fd, "r");
    if (*out) return OK;
    close(fd);
    return reason ? FAIL(E_DATA, "%s%.512s %s", what, path, reason)
                  : FAIL(E_MEMORY, "no memory to read %s%.512s", what, path);
}

enum status input_open(struct input *in, const char *what, const char *path, enum input_kind kind, size_t most) {
    *in = (struct input){.what = what, .path = path, .most = most};
    TRY(input_file(what, path, kind, &in->file));
    in->text = malloc(most + 1);
    return in->text ? OK : FAIL(E_MEMORY, "no memory for a line of %s%.512s", what, path);
}

enum status input_line(struct input *in) {
    int c = 0;
    in->number++;
    for (in->n = 0; c != '\n' && (c = getc_unlocked(in->file)) != EOF; in->text[in->n++] = (char)c)
        if (in->n == in->most)
            return FAIL(E_FORMAT, "%s%.512s, line %" PRId64 " has more than %zu bytes, which is the limit; is this the "
                        "right file?", in->what, in->path, in->number, in->most);
    in->text[in->n] = 0;
    if (ferror(in->file)) return FAIL(E_IO, "cannot read %s%.512s: %s", in->what, in->path, strerror(errno));
    if (!memchr(in->text, 0, in->n)) return OK;                      /* C strings end at a zero byte */
    return FAIL(E_FORMAT, "%s%.512s, line %" PRId64 " has a zero byte; is this a text file?", in->what, in->path,
                in->number);
}

void input_close(struct input *in) {
    if (in->file) fclose(in->file);
    free(in->text);
    *in = (struct input){.file = NULL};
}
