#include "lib/base/configs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* DIR/build/trivium -> DIR */
static bool project_folder(char folder[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[n > 0 ? n : 0] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        if (!slash) return false;
        *slash = 0;
    }
    return true;
}

bool configs_find(const char *name, char *path, size_t size) {
    char folder[PATH_MAX];
    if (project_folder(folder) && (size_t)snprintf(path, size, "%s/configs/%s", folder, name) < size &&
        access(path, R_OK) == 0)
        return true;
    return (size_t)snprintf(path, size, "configs/%s", name) < size && access(path, R_OK) == 0;
}
