/* /proc/self/exe opens the program's own file, even if its name now belongs to another file or no longer exists. The
 * name is used as long as it is valid, because ps and pgrep show it. */
#include "lib/base/program.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char self[] = "/proc/self/exe";
static char path[PATH_MAX];

/* Remove the suffix that the kernel adds to the name of a deleted file. */
static void cut_off(char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    if (n > n_end && strcmp(text + n - n_end, end) == 0 && access(text, F_OK) != 0) text[n - n_end] = 0;
}

enum status program_path(const char **out) {
    ssize_t n = path[0] ? 0 : readlink(self, path, sizeof path - 1);
    if (n < 0) return FAIL(E_IO, "cannot read %s: %s", self, strerror(errno));
    if (n > 0) path[n] = 0;
    if (n > 0) cut_off(path, " (deleted)");
    *out = path;
    return OK;
}

bool program_is_replaced(void) {
    struct stat mine, there;
    if (stat(self, &mine) != 0) return false;
    return stat(path, &there) != 0 || there.st_dev != mine.st_dev || there.st_ino != mine.st_ino;
}

void program_run(char *const *words) {
    if (strcmp(words[0], path) == 0 && program_is_replaced()) execv(self, words);
    execvp(words[0], words);
}
