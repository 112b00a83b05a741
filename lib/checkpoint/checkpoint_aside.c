/* The steps of other runs in SAVE.
 *
 * A run that starts from scratch, or goes back to step 10 of 40, finds steps that it has not made. If --keep counted
 * these, it would keep them and remove the newest steps of this run, because their numbers are smaller. So before its
 * first save a run renames them into a separate folder, from which a run can resume:
 *
 *     SAVE/aside-1/step-00000040     and all other steps after 10
 *     SAVE/aside-1/latest            the newest of them
 *     SAVE/latest                    the step that this run has resumed; a run from scratch has none before its save
 *
 * `latest` changes first: if the process is killed at any moment, `latest` names a step of this run or does not
 * exist. */
#include "lib/checkpoint/checkpoint.h"

#include "lib/base/replace.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_lock.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool checkpoint_is_in(const char *step, const char *save) {
    char above[CHECKPOINT_PATH_MAX];
    struct stat a, b;
    bool fits = checkpoint_path(step, "..", above) == OK;
    status_clear();
    return fits && stat(above, &a) == 0 && stat(save, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum status make_aside(const char *save, char aside[CHECKPOINT_PATH_MAX]) {
    for (int n = 1;; n++) {
        char name[32];
        snprintf(name, sizeof name, "aside-%d", n);
        TRY(checkpoint_path(save, name, aside));
        if (mkdir(aside, 0777) == 0) return OK;
        if (errno != EEXIST || n == INT32_MAX)
            return FAIL(E_IO, "cannot make the folder %s: %s; point --save at a writable directory", aside,
                        strerror(errno));
    }
}

static enum status name_latest(const char *folder, int64_t step) {
    char name[32];
    snprintf(name, sizeof name, "step-%08" PRId64, step);
    return checkpoint_replace_text(folder, "latest", name);
}

/* Replace `latest`. mine: this run's newest step in the folder, which `latest` may name; -1: there is none. */
static enum status change_latest(const char *save, int64_t mine) {
    char latest[CHECKPOINT_PATH_MAX];
    if (mine >= 0) return name_latest(save, mine);
    TRY(checkpoint_path(save, "latest", latest));
    if (unlink(latest) == 0 || errno == ENOENT) return OK;
    return FAIL(E_IO, "cannot remove %s: %s", latest, strerror(errno));
}

static enum status move_step(const char *save, const char *aside, int64_t step) {
    char from[CHECKPOINT_PATH_MAX], to[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_step_path(save, step, false, from));
    TRY(checkpoint_step_path(aside, step, false, to));
    return rename(from, to) == 0 ? OK : FAIL(E_IO, "cannot rename %s to %s: %s", from, to, strerror(errno));
}

/* Move the first n of `steps` (newest first), which are other runs' steps. */
static enum status move_steps(const char *save, const int64_t *steps, int n, int64_t mine) {
    char aside[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_lock_check(save));
    TRY(make_aside(save, aside));
    TRY(name_latest(aside, steps[0]));
    TRY(change_latest(save, mine));
    for (int i = n - 1; i >= 0; i--) TRY(move_step(save, aside, steps[i]));
    TRY(durable_folder(aside));                            /* so that the new name is on disk before the old one goes */
    TRY(durable_folder(save));
    log_warn("%d checkpoint%s of another run, up to step %" PRId64 ", %s in %s now", n, n == 1 ? "" : "s", steps[0],
             n == 1 ? "is" : "are", aside);
    return OK;
}

enum status checkpoint_set_aside(const char *save, int64_t mine) {
    int64_t *steps;
    struct stat info;
    int n, others = 0;
    if (stat(save, &info) != 0 && errno == ENOENT) return OK;
    TRY(checkpoint_list_steps(save, false, &steps, &n));
    while (others < n && steps[others] > mine) others++;
    enum status status = others ? move_steps(save, steps, others, others < n ? mine : -1) : OK;
    free(steps);
    return status;
}
