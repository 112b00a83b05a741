/* If a step is saved again, its new folder is exchanged with the old one. A file system that cannot exchange two
 * folders (NFS) needs two renames (give_name in checkpoint_save.c), and between them the step has no name:
 *
 *   .step-N = new, step-N = old  ->  .step-N = new, .step-N+1 = old  ->  step-N = new, .step-N+1 = old
 *
 * If a job dies there, `latest` names no folder, but both copies are complete. So readers also look for the step under
 * the hidden names. The next job that writes renames it to step-N before it removes hidden folders. */
#include "lib/checkpoint/checkpoint_lock.h"

#include "lib/base/replace.h"
#include "lib/base/input.h"
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_manifest.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_file(const char *folder, const char *name) {
    char path[CHECKPOINT_PATH_MAX];
    struct stat info;
    bool there = checkpoint_path(folder, name, path) == OK && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    status_clear();
    return there;
}

/* Read the name in `latest`, and its step; -1: it names no step. @errors E_DATA: there is no `latest`; E_IO */
static enum status read_latest(const char *save, char name[64], int64_t *step) {
    char latest[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_path(save, "latest", latest));
    if (!is_file(save, "latest"))
        return FAIL(E_DATA,
                    "%s is no checkpoint: it has neither manifest.json nor latest; give a step directory, or what "
                    "--save named",
                    save);
    FILE *f;
    if (input_file("", latest, INPUT_FILE, &f) != OK) return FAIL(E_IO, "%s", status_message());
    bool read = fgets(name, 64, f) != NULL;
    enum status status = ferror(f) ? FAIL(E_IO, "cannot read %s: %s", latest, strerror(errno)) : OK;
    fclose(f);
    TRY(status);
    name[strcspn(name, "\n")] = 0;
    *step = read ? checkpoint_step_of_name(name) : -1;
    return OK;
}

/* Find a hidden copy of the step, the new one first. A copy that is not complete does not count. */
static bool find_hidden(const char *save, int64_t step, char path[CHECKPOINT_PATH_MAX]) {
    bool found = false;
    for (int64_t hidden = step; hidden <= step + 1 && !found; hidden++) {
        struct manifest m = {0};
        found = checkpoint_step_path(save, hidden, true, path) == OK && manifest_read(&m, path) == OK &&
                m.step == step && manifest_check_shards(&m, 0, 1) == OK;
        manifest_fini(&m);
        status_clear();
    }
    return found;
}

enum status checkpoint_resolve(const char *path, char step[CHECKPOINT_PATH_MAX]) {
    char name[64] = "", hidden[CHECKPOINT_PATH_MAX];
    int64_t number;
    if (is_file(path, "manifest.json")) {
        snprintf(step, CHECKPOINT_PATH_MAX, "%s", path); /* fits, because the path of its manifest is longer */
        return OK;
    }
    TRY(read_latest(path, name, &number));
    if (number < 0)
        return FAIL(E_FORMAT, "%s/latest does not name a step, as in step-00000012; give the step directory itself",
                    path);
    TRY(checkpoint_path(path, name, step));
    if (is_file(step, "manifest.json")) return OK;
    if (find_hidden(path, number, hidden)) {
        memcpy(step, hidden, sizeof hidden);
        return OK;
    }
    return FAIL(E_DATA, "%s/latest names %s, which has no manifest.json; give another step directory", path, name);
}

enum status checkpoint_restore_name(const char *save) {
    char name[64] = "", final[CHECKPOINT_PATH_MAX], hidden[CHECKPOINT_PATH_MAX];
    int64_t step;
    enum status status = read_latest(save, name, &step);
    if (status == E_IO) return status;
    status_clear();
    if (status != OK || step < 0) return OK;
    TRY(checkpoint_path(save, name, final));
    if (access(final, F_OK) == 0 || errno != ENOENT || !find_hidden(save, step, hidden)) return OK;
    if (rename(hidden, final) == 0) return durable_folder(save);
    return FAIL(E_IO, "latest names %s, which lies in %s, and cannot be renamed: %s", final, hidden, strerror(errno));
}
