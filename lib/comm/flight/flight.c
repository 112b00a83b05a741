/* Writing the flight record: see flight.h. A process has one ring, and only one thread writes it, because only one
 * calls MPI. */
#include "lib/comm/flight/flight.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

_Static_assert(sizeof(struct flight_row) == 64, "a row is one cache line");

static const int64_t gap_ns = 1000000000;

static struct flight *ring;
static char path[FLIGHT_PATH_MAX];
static int64_t offset_ns;          /* from the monotonic clock to wall time */

static int64_t wall_ns(double s) { return (int64_t)(1e9 * s) + offset_ns; }

const struct flight *flight_mine(void) { return ring; }

/* ---- the file ---- */

static int64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The file's pages are allocated at once: on a full file system a store into a missing page would kill the rank. */
static struct flight *map_file(void) {
    int fd = shared_open(path, SHARED_NEW, 0600);
    if (fd < 0) return NULL;
    int reason = posix_fallocate(fd, 0, (off_t)sizeof *ring);
    void *at = reason ? MAP_FAILED : mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!reason && at == MAP_FAILED) reason = errno;
    close(fd);
    if (at != MAP_FAILED) return at;
    unlink(path);
    errno = reason;
    return NULL;
}

/* Set a new start time, because a reader takes a rank's newest ring (flight_read.c). Then that is the ring of a dead
 * rank's successor. */
void flight_rank_is(int rank, int size) {
    if (!ring) return;
    ring->rank = rank;
    ring->size = size;
    ring->start_ns = real_ns();
    ring->n_groups = 0;
    ring->wait_row = 0;
    memset(ring->group, 0, sizeof ring->group);
    memset(ring->row, 0, sizeof ring->row);
}

static enum status open_ring(const char *job, int process) {
    char folder[FLIGHT_PATH_MAX - 128];
    TRY(shared_folder(flight_parent(), folder, sizeof folder));
    snprintf(path, sizeof path, "%s/trivium.%.64s.%d", folder, job, process);
    ring = map_file();
    return ring ? OK : FAIL(E_IO, "cannot write %s: %s", path, shared_why(errno));
}

void flight_open(const char *job, int process, int rank, int size, const char *host, bool speaks) {
    offset_ns = real_ns() - (int64_t)(1e9 * clock_s());
    if (speaks) flight_prune(FLIGHT_MOST_DEAD);
    if (open_ring(job, process) != OK) {
        if (speaks) log_warn("no flight record: %s; give another folder in TRIVIUM_FLIGHT", status_message());
        status_clear();
        return;
    }
    ring->version = FLIGHT_VERSION;
    ring->n_rows = FLIGHT_ROWS;
    ring->rank = rank;
    ring->size = size;
    ring->pid = (int32_t)getpid();
    snprintf(ring->host, sizeof ring->host, "%s", host);
    snprintf(ring->job, sizeof ring->job, "%s", job);
    ring->start_ns = ring->seen_ns = real_ns();
    memcpy(ring->magic, "TRVFLGHT", sizeof ring->magic); /* written last: from here on the ring is readable */
}

void flight_close(bool keep) {
    if (!ring) return;
    ring->end_ns = real_ns();
    if (!keep) unlink(path);
    munmap(ring, sizeof *ring);
    ring = NULL;
}

/* ---- groups ---- */

/* An entry that was never used, or else the first entry whose group has been destroyed; -1: none. */
static int free_entry(void) {
    if (ring->n_groups < FLIGHT_GROUPS) return (int)ring->n_groups++;
    for (int g = 0; g < FLIGHT_GROUPS; g++)
        if (!ring->group[g].open) return g;
    return -1;
}

static int stride_of(int size, const int *members) {
    int stride = members[1] - members[0];
    for (int r = 2; r < size; r++)
        if (members[r] - members[r - 1] != stride) return 0;
    return stride;
}

int flight_group_open(const char *name, int size, int rank, const int *members, int made) {
    int g = ring && size > 1 ? free_entry() : -1;
    if (g < 0) return -1;
    uint32_t seed = XXH32(name, strlen(name), (uint32_t)made);
    ring->group[g] = (struct flight_group){.hash = XXH32(members, (size_t)size * sizeof *members, seed),
                                           .size = size, .rank = rank, .first = members[0],
                                           .stride = stride_of(size, members), .open = 1};
    snprintf(ring->group[g].name, sizeof ring->group[g].name, "%s", name);
    return g;
}

void flight_group_close(int group) {
    if (ring && group >= 0) ring->group[group].open = 0;
}

/* ---- rows ---- */

static struct flight_row *row_of(int64_t number) {
    if (!ring || number <= 0) return NULL;
    struct flight_row *row = &ring->row[number % FLIGHT_ROWS];
    return row->number == number ? row : NULL; /* NULL: it has been overwritten meanwhile */
}

int64_t flight_called(int group, bool collective, const struct flight_row *call) {
    if (!ring || group < 0) return 0;
    struct flight_row row = *call;
    row.number = ring->written + 1;
    row.called_ns = wall_ns(clock_s());
    row.group = ring->group[group].hash;
    row.step = (int32_t)ring->step.step;
    row.state = FLIGHT_CALLED;
    ring->row[row.number % FLIGHT_ROWS] = row;
    ring->written = row.number;
    if (collective) ring->group[group].called = row.sequence + 1;
    return row.number;
}

void flight_state_is(int64_t number, enum flight_state state) {
    struct flight_row *row = row_of(number);
    if (!row) return;
    row->done_ns = state >= FLIGHT_QUEUED ? wall_ns(clock_s()) : 0;
    row->state = (uint8_t)state;
}

void flight_hop_is(int64_t number, int hop, int hops) {
    struct flight_row *row = row_of(number);
    if (!row) return;
    row->hop = (uint16_t)(hop < UINT16_MAX ? hop : UINT16_MAX);
    row->hops = (uint16_t)(hops < UINT16_MAX ? hops : UINT16_MAX);
}

void flight_waits(int64_t number, double since_s) {
    if (!ring) return;
    ring->wait_since_ns = number ? wall_ns(since_s) : 0;
    ring->wait_row = number;
}

void flight_seen(double now_s) {
    if (!ring) return;
    int64_t now_ns = wall_ns(now_s);
    if (now_ns - ring->seen_ns > gap_ns) {
        ring->gap_from_ns = ring->seen_ns;
        ring->gap_to_ns = now_ns;
    }
    ring->seen_ns = now_ns;
}

void flight_step_is(const struct flight_step *step) {
    if (ring) ring->step = *step;
}
