#define _GNU_SOURCE /* memfd_create */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Noreturn void fuzz_broken(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: does not hold: %s\n%s\n", file, line, condition, status_text());
    abort();
}

static _Noreturn void cannot(const char *what) {
    perror(what);
    _Exit(1);
}

static void write_all(int fd, const void *data, size_t size) {
    if (write(fd, data, size) != (ssize_t)size) cannot("a fuzz target's file");
}

const char *fuzz_file(const void *data, size_t size) {
    static int fd = -1;
    static char path[32];
    if (fd < 0 && (fd = memfd_create("input", MFD_CLOEXEC)) < 0) cannot("memfd_create");
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0) cannot("a fuzz target's file");
    write_all(fd, data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* ---- a folder ---- */

enum { MAX_FILES = 8 };
static char folder[64], written[MAX_FILES][128];
static int n_written;

static void remove_folder(void) {
    for (int i = 0; i < n_written; i++) unlink(written[i]);
    rmdir(folder);
}

const char *fuzz_folder(void) {
    if (*folder) return folder;
    snprintf(folder, sizeof folder, "%s/trivium-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder)) cannot(folder);
    atexit(remove_folder);
    return folder;
}

static void remember(const char *path) {
    for (int i = 0; i < n_written; i++)
        if (!strcmp(written[i], path)) return;
    if (n_written == MAX_FILES) cannot("too many files of a fuzz target");
    snprintf(written[n_written++], sizeof *written, "%s", path);
}

void fuzz_write(const char *name, const void *data, size_t size) {
    char path[sizeof *written];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    remember(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) cannot(path);
    write_all(fd, data, size);
    close(fd);
}

/* ---- the rest ---- */

char *fuzz_text(const uint8_t *data, size_t size) {
    char *text = strndup((const char *)data, size);
    if (!text) cannot("memory");
    return text;
}

FILE *fuzz_nowhere(void) {
    static FILE *f;
    if (!f && !(f = fopen("/dev/null", "w"))) cannot("/dev/null");
    return f;
}

uint64_t fuzz_number(struct fuzz_bytes *b, int n_bytes) {
    uint64_t x = 0;
    for (int i = 0; i < n_bytes && b->left > 0; i++, b->at++, b->left--) x |= (uint64_t)*b->at << 8 * i;
    return x;
}
