/* Reads the flight records of a failed attempt's ranks, copies them to a folder, and removes them from shared memory.
 * After an attempt that did not fail, they are only removed. */
#include "launch/launch.h"

#include "lib/base/log.h"
#include "lib/base/shared.h"
#include "lib/comm/flight/postmortem.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_FOLDERS = 16 };                  /* of failed jobs; older ones are removed */

static enum status write_ring(const struct flight *f, const char *folder) {
    char path[FLIGHT_PATH_MAX];
    snprintf(path, sizeof path, "%.3900s/trivium.%s.%d", folder, f->job, f->rank);
    FILE *file = shared_create(path);
    if (!file) return FAIL(E_IO, "cannot write %s: %s", path, shared_why(errno));
    size_t n = fwrite(f, sizeof *f, 1, file);
    if (fclose(file) != 0) n = 0;
    return n == 1 ? OK : FAIL(E_IO, "cannot write %s: %s", path, strerror(errno));
}

/* ---- folders of earlier jobs ---- */
struct kept { struct timespec at; char name[NAME_MAX + 1]; };

static int newest_first(const void *a, const void *b) {
    const struct timespec *x = &((const struct kept *)a)->at, *y = &((const struct kept *)b)->at;
    int by_s = (x->tv_sec < y->tv_sec) - (x->tv_sec > y->tv_sec);
    return by_s ? by_s : (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

static void find_kept(const char *mine, struct kept **all, size_t *n) {
    char path[PATH_MAX];
    struct stat is;
    DIR *dir = opendir(mine);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        snprintf(path, sizeof path, "%.3800s/%s", mine, entry->d_name);
        if (strncmp(entry->d_name, "flight.", 7) != 0 || lstat(path, &is) != 0) continue;
        struct kept *grown = realloc(*all, (*n + 1) * sizeof *grown);
        if (!grown) break;                   /* the folders that are not listed are kept */
        *all = grown;
        grown[*n].at = is.st_mtim;
        snprintf(grown[(*n)++].name, sizeof grown->name, "%s", entry->d_name);
    }
    if (dir) closedir(dir);
}

static void prune(const char *mine) {
    char path[PATH_MAX];
    struct kept *all = NULL;
    size_t n = 0;
    find_kept(mine, &all, &n);
    if (n) qsort(all, n, sizeof *all, newest_first);
    for (size_t i = MOST_FOLDERS; i < n; i++) {
        snprintf(path, sizeof path, "%.3800s/%s", mine, all[i].name);
        launch_remove_tree(path);
    }
    free(all);
}

/* Write the records to the job's folder, which lies in this user's folder. They replace an earlier attempt's. */
static enum status put_away(const struct flight_set *set, char folder[PATH_MAX]) {
    char mine[PATH_MAX - 128];
    if (shared_folder(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", mine, sizeof mine) != OK)
        return FAIL(E_IO, "the flight records are not kept: %s; set TMPDIR to a folder of your own", status_message());
    snprintf(folder, PATH_MAX, "%s/flight.%.64s", mine, set->job);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return FAIL(E_IO, "cannot make %s: %s; set TMPDIR to a folder that can be written to", folder, strerror(errno));
    for (int r = 0; r < set->size; r++) {
        if (!set->ring[r]) continue;
        if (set->ring[r]->end_ns == 0) set->ring[r]->end_ns = set->now_ns; /* later its pid may be another process's */
        TRY(write_ring(set->ring[r], folder));
    }
    prune(mine);
    return OK;
}

static enum status say_verdict(const struct flight_set *set) {
    char folder[PATH_MAX], text[1536];
    struct postmortem p;
    TRY(postmortem_find(set, &p));
    postmortem_text(set, &p, text, sizeof text);
    postmortem_fini(&p);
    TRY(put_away(set, folder));
    log_info("postmortem: %s. More: trivium postmortem %s", text, folder);
    return OK;
}

void launch_flight(bool failed) {
    struct flight_set set;
    const char *job = getenv("TRIVIUM_JOB");
    if (!job) return;
    if (failed && flight_set_read(flight_folder(), job, &set) == OK) {
        if (say_verdict(&set) != OK) log_warn("%s", status_message());
        flight_set_fini(&set);
    }
    status_clear(); /* no records is no error: the ranks left together, or never started */
    flight_remove(job);
}
