/* Memory-mapped files. The kernel loads a page at its first access, so a file may be larger than memory, and all ranks
 * of a host share one copy. */
#include "lib/data/data_private.h"

#include "lib/base/input.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A plain open() would accept a directory, and would block on a pipe without a writer. */
static enum status open_regular(const char *path, const char *option, int *fd, int64_t *bytes) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &info) != 0)
        return FAIL(input_status(errno), "cannot open %s: %s; give %s a file that exists and can be read", path,
                    strerror(errno), option);
    if (S_ISDIR(info.st_mode)) return FAIL(E_DATA, "%s is a directory; give %s a file in it", path, option);
    if (!S_ISREG(info.st_mode))
        return FAIL(E_DATA, "%s is a pipe or a device, and it is not read in order; save it to a file first", path);
    *bytes = info.st_size;
    return OK;
}

enum status data_map(const char *path, const char *option, struct data_map *map) {
    int fd = -1;
    map->path = strdup(path);
    if (!map->path) return FAIL(E_MEMORY, "no memory to describe %s; close other programs", path);
    enum status status = open_regular(path, option, &fd, &map->bytes);
    if (status == OK && map->bytes > 0) {
        void *at = mmap(NULL, (size_t)map->bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            status = FAIL(E_DATA, "cannot map %s (%lld bytes): %s; copy it to a local disk", path,
                          (long long)map->bytes, strerror(errno));
        else map->at = at;
    }
    if (fd >= 0) close(fd); /* the mapping stays valid */
    return status;
}

void data_unmap(struct data_map *map) {
    if (map->at) munmap((void *)map->at, (size_t)map->bytes);
    free(map->path);
    *map = (struct data_map){NULL, NULL, 0};
}
