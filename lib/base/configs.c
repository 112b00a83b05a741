#define _GNU_SOURCE /* program_invocation_name */
#include "lib/base/configs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* DIR/build/trivium -> DIR, and PREFIX/bin/trivium -> PREFIX */
static bool folder_of_program(char folder[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[n > 0 ? n : 0] = 0;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(folder, '/');
        if (!slash) return false;
        *slash = 0;
    }
    return true;
}

const char *configs_program(void) {
#ifdef __wasm__
    return "build/trivium";                                        /* planner/explorer */
#else
    return program_invocation_name;
#endif
}

bool configs_find(const char *name, char *path, size_t size) {
    static const char *const places[] = {"%s/configs/%s", "%s/share/trivium/configs/%s"};
    char folder[PATH_MAX];
    if (folder_of_program(folder))
        for (int i = 0; i < 2; i++)
            if ((size_t)snprintf(path, size, places[i], folder, name) < size && access(path, R_OK) == 0) return true;
    return (size_t)snprintf(path, size, "configs/%s", name) < size && access(path, R_OK) == 0;
}
