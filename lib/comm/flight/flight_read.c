/* Reading flight records of any job. Every field of a file is checked before it is used, because a file may be
 * damaged. */
#include "lib/comm/flight/flight.h"

#include "lib/base/shared.h"
#include "lib/comm/comm.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *flight_parent(void) {
    const char *folder = getenv("TRIVIUM_FLIGHT");
    return folder && *folder ? folder : "/dev/shm";
}

const char *flight_folder(void) {
    static char folder[FLIGHT_PATH_MAX];
    if (shared_folder_name(flight_parent(), folder, sizeof folder) != OK) *folder = 0;
    return folder;
}

/* ---- one ring ---- */

enum { MOST_RANKS = 1 << 20 };

/* In this range, differences of two times or counts do not overflow. */
static bool is_count(int64_t n) { return n >= 0 && n <= INT64_MAX / 4; }

/* Size 0: the group is being opened. */
static bool group_is_sound(const struct flight_group *g, int world) {
    int64_t last = g->first + (int64_t)g->stride * ((int64_t)g->size - 1);
    bool members = g->stride == 0 || (g->first >= 0 && g->first < world && last >= 0 && last < world);
    return memchr(g->name, 0, sizeof g->name) && g->size >= 0 && g->size <= world && members && is_count(g->called);
}

static bool row_is_sound(const struct flight_row *r) {
    return r->op < N_COMM_OPS && r->dtype < N_DTYPES && r->state <= FLIGHT_DONE && r->reduction <= COMM_MIN &&
           is_count(r->number) && is_count(r->called_ns) && is_count(r->done_ns) && is_count(r->sequence);
}

/* With checked fields, a damaged file cannot make a reader leave its arrays. */
static bool is_sound(const struct flight *f) {
    bool sound = f->n_rows == FLIGHT_ROWS && f->n_groups <= FLIGHT_GROUPS && f->size > 0 && f->size <= MOST_RANKS &&
                 f->rank >= 0 && f->rank < f->size && is_count(f->written) && memchr(f->host, 0, sizeof f->host) &&
                 memchr(f->job, 0, sizeof f->job);
    const int64_t times[] = {f->start_ns, f->end_ns, f->seen_ns, f->gap_from_ns, f->gap_to_ns, f->wait_since_ns};
    for (size_t i = 0; sound && i < sizeof times / sizeof *times; i++) sound = is_count(times[i]);
    for (uint32_t g = 0; sound && g < f->n_groups; g++) sound = group_is_sound(&f->group[g], f->size);
    for (int i = 0; sound && i < FLIGHT_ROWS; i++) sound = row_is_sound(&f->row[i]);
    return sound;
}

static enum status check(const struct flight *f, size_t n, const char *path) {
    if (n < offsetof(struct flight, n_rows) || memcmp(f->magic, "TRVFLGHT", sizeof f->magic) != 0)
        return FAIL(E_FORMAT, "%s is no flight record", path);
    if (f->version != FLIGHT_VERSION)
        return FAIL(E_FORMAT, "%s is a flight record of version %u, and this program reads version %d; use the program "
                    "that wrote it", path, f->version, FLIGHT_VERSION);
    if (n == sizeof *f && is_sound(f)) return OK;
    return FAIL(E_FORMAT, "%s is a damaged flight record: %zu bytes of %zu", path, n, sizeof *f);
}

struct flight *flight_blank(void) {
    struct flight *f = aligned_alloc(_Alignof(struct flight), sizeof *f);
    return f ? memset(f, 0, sizeof *f) : NULL;
}

enum status flight_read(const char *path, struct flight **out) {
    *out = NULL;
    int fd = shared_open(path, SHARED_READ, 0);
    if (fd < 0) return FAIL(E_DATA, "cannot read %s: %s", path, shared_why(errno));
    struct flight *f = flight_blank();
    enum status status = f ? OK : FAIL(E_MEMORY, "no memory for a flight record of %zu bytes", sizeof *f);
    ssize_t n = f ? read(fd, f, sizeof *f) : 0;
    if (f) status = check(f, n > 0 ? (size_t)n : 0, path);
    close(fd);
    if (status == OK) *out = f;
    else free(f);
    return status;
}

const struct flight_row *flight_row_at(const struct flight *f, int64_t number) {
    const struct flight_row *row = number > 0 ? &f->row[number % FLIGHT_ROWS] : NULL;
    return row && row->number == number ? row : NULL;
}

const struct flight_group *flight_group_find(const struct flight *f, uint32_t hash) {
    for (uint32_t g = 0; g < f->n_groups; g++)
        if (f->group[g].hash == hash) return &f->group[g];
    return NULL;
}

static void uncall(struct flight *f, struct flight_row *row) {
    for (uint32_t g = 0; g < f->n_groups && row->op != COMM_SEND && row->op != COMM_RECV; g++)
        if (f->group[g].hash == row->group) f->group[g].called--;
    row->number = 0;
    f->written--;
}

void flight_cut(struct flight *f, int64_t at_ns) {
    if (f->gap_from_ns < at_ns && at_ns < f->gap_to_ns) f->seen_ns = f->gap_from_ns;
    if (f->seen_ns > at_ns) f->seen_ns = at_ns;
    if (f->wait_since_ns > at_ns) f->wait_row = 0;
    for (;;) {
        struct flight_row *row = &f->row[f->written % FLIGHT_ROWS];
        if (row->number != f->written || row->number == 0 || row->called_ns <= at_ns) break;
        uncall(f, row);
    }
    for (int i = 0; i < FLIGHT_ROWS; i++) {
        if (f->row[i].done_ns <= at_ns) continue;
        f->row[i].done_ns = 0;
        f->row[i].state = FLIGHT_STARTED;
    }
}

/* ---- all rings of a folder ---- */

/* Has the process ended, but its parent not yet waited for it? */
static bool is_zombie(int pid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
    const char *name_ends = strrchr(text, ')');
    return name_ends && strncmp(name_ends, ") Z", 3) == 0;
}

static bool still_runs(const struct flight *f) {
    char host[64];
    comm_host_name(host, sizeof host);
    return f->end_ns == 0 && strcmp(host, f->host) == 0 && (kill(f->pid, 0) == 0 || errno == EPERM) &&
           !is_zombie(f->pid);
}

struct found { struct flight *ring; char path[FLIGHT_PATH_MAX]; };
struct finding { struct found *at; int n; };

static int newest_first(const void *a, const void *b) {
    int64_t x = ((const struct found *)a)->ring->start_ns, y = ((const struct found *)b)->ring->start_ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void finding_fini(struct finding *finding) {
    for (int i = 0; i < finding->n; i++) free(finding->at[i].ring);
    free(finding->at);
    *finding = (struct finding){0};
}

static enum status keep_ring(struct finding *finding, const char *folder, const char *name) {
    struct found found;
    snprintf(found.path, sizeof found.path, "%s/%.255s", folder, name);
    if (flight_read(found.path, &found.ring) != OK) { /* a file of another program, or a ring that is being opened */
        status_clear();
        return OK;
    }
    struct found *grown = realloc(finding->at, (size_t)(finding->n + 1) * sizeof *grown);
    if (!grown) {
        free(found.ring);
        return FAIL(E_MEMORY, "no memory for %d flight records", finding->n + 1);
    }
    finding->at = grown;
    finding->at[finding->n++] = found;
    return OK;
}

/* Open MPI may have a folder trivium.JOB in the same folder; flight_read rejects it. */
static enum status find_all(const char *folder, struct finding *finding) {
    *finding = (struct finding){0};
    DIR *dir = opendir(folder);
    if (!dir && errno == ENOENT) return OK; /* this user has not recorded anything yet */
    if (!dir) return FAIL(E_DATA, "cannot read %s: %s", folder, strerror(errno));
    enum status status = OK;
    for (struct dirent *entry; status == OK && (entry = readdir(dir));)
        if (strncmp(entry->d_name, "trivium.", 8) == 0) status = keep_ring(finding, folder, entry->d_name);
    closedir(dir);
    if (finding->n) qsort(finding->at, (size_t)finding->n, sizeof *finding->at, newest_first);
    return status;
}

/* Find this user's rings, which this process may remove. */
static void find_own(struct finding *all) {
    char folder[FLIGHT_PATH_MAX];
    *all = (struct finding){0};
    enum status status = shared_folder(flight_parent(), folder, sizeof folder);
    if (status == OK) status = find_all(folder, all);
    if (status != OK) status_clear();
}

void flight_remove(const char *job) {
    struct finding all;
    find_own(&all);
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.at[i].ring->job, job) == 0) unlink(all.at[i].path);
    finding_fini(&all);
}

void flight_prune(int most) {
    struct finding all;
    int n = 0;
    find_own(&all);
    for (int i = 0; i < all.n; i++)
        if (!still_runs(all.at[i].ring) && n++ >= most) unlink(all.at[i].path);
    finding_fini(&all);
}

/* ---- one job's ---- */

static int64_t last_heard_ns(const struct flight *f) {
    int64_t last = f->seen_ns > f->end_ns ? f->seen_ns : f->end_ns;
    for (int i = 0; i < FLIGHT_ROWS; i++) {
        if (f->row[i].called_ns > last) last = f->row[i].called_ns;
        if (f->row[i].done_ns > last) last = f->row[i].done_ns;
    }
    return last;
}

static enum status take(struct finding *all, const char *job, struct flight_set *set) {
    for (int i = 0; i < all->n; i++) {
        struct flight *f = all->at[i].ring;
        if (strcmp(f->job, job) != 0) continue;
        if (!set->ring) {
            set->size = f->size;
            set->ring = calloc((size_t)f->size, sizeof(struct flight *));
            if (!set->ring) return FAIL(E_MEMORY, "no memory for the flight records of %d ranks", f->size);
        }
        if (f->size != set->size || set->ring[f->rank]) continue;
        set->ring[f->rank] = f;
        all->at[i].ring = NULL;
        set->n_found++;
        set->alive |= still_runs(f);
        if (last_heard_ns(f) > set->now_ns) set->now_ns = last_heard_ns(f);
    }
    return OK;
}

static enum status none_found(const char *folder, const char *job, const struct finding *all) {
    char jobs[512] = "";
    for (int i = 0; i < all->n; i++) {
        size_t n = strlen(jobs);
        if (!strstr(jobs, all->at[i].ring->job))
            snprintf(jobs + n, sizeof jobs - n, "%s%s", n ? ", " : "", all->at[i].ring->job);
    }
    if (!*jobs) return FAIL(E_DATA, "%s has no flight record; a job that ended well leaves none", folder);
    return FAIL(E_DATA, "%s has no flight record of job %s; there are %s", folder, job, jobs);
}

/* The first rank that gave up ends the job, so the set's clock stops at that time. */
static void stop_clock(struct flight_set *set) {
    int64_t first_ns = 0;
    for (int r = 0; r < set->size; r++) {
        int64_t end_ns = set->ring[r] ? set->ring[r]->end_ns : 0;
        if (end_ns && (!first_ns || end_ns < first_ns)) first_ns = end_ns;
    }
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (set->alive) set->now_ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    if (!first_ns) return;
    set->now_ns = first_ns;
    for (int r = 0; r < set->size; r++)
        if (set->ring[r]) flight_cut(set->ring[r], first_ns);
}

enum status flight_set_read(const char *folder, const char *job, struct flight_set *out) {
    struct finding all;
    *out = (struct flight_set){0};
    enum status status = find_all(folder, &all);
    snprintf(out->job, sizeof out->job, "%s", *job || all.n == 0 ? job : all.at[0].ring->job);
    if (status == OK) status = take(&all, out->job, out);
    if (status == OK && out->n_found == 0) status = none_found(folder, job, &all);
    finding_fini(&all);
    if (status == OK) stop_clock(out);
    if (status != OK) flight_set_fini(out);
    return status;
}

void flight_set_fini(struct flight_set *set) {
    for (int r = 0; r < set->size && set->ring; r++) free(set->ring[r]);
    free(set->ring);
    *set = (struct flight_set){0};
}
