#define _GNU_SOURCE /* memfd_create, fallocate */
#include "lib/comm/direct/job.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The layout of the file: own_memory, then the rings of epoch 0, 1, ... Rings of a new epoch never reuse an older one's
 * place, because a process that slept meanwhile would write into them. Unused pages take no memory, and the file may
 * grow to 2^63 bytes. */
static const size_t page = 4096;
static size_t control_bytes(void) { return (sizeof(struct own_memory) + page - 1) / page * page; }
static size_t rings_bytes(int n_slots) {
    return ((size_t)n_slots * (size_t)n_slots * sizeof(struct ring) + page - 1) / page * page;
}
static size_t rings_at(int n_slots, int32_t epoch) {
    return control_bytes() + (size_t)epoch * rings_bytes(n_slots);
}

int own_node(const struct own_job *job, int slot) {
    int n_first = job->n_first ? job->n_first : job->n_slots;
    if (job->n_nodes <= 1) return 0;
    return slot < n_first ? (int)((int64_t)slot * job->n_nodes / n_first) : slot % job->n_nodes;
}

/* Make room for the rings of an epoch. The file grows only with the epochs, since `ulimit -f` also counts unused
 * pages. */
static enum status make_room(const struct own_job *job, int32_t epoch) {
    const off_t bytes = (off_t)rings_at(job->n_slots, epoch) + (off_t)rings_bytes(job->n_slots);
    struct stat file;
    struct rlimit limit;
    if (fstat(job->fd, &file) == 0 && file.st_size >= bytes) return OK;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < (rlim_t)bytes)
        return FAIL(E_IO, "`ulimit -f` is %" PRIu64 ", and the memory that ranks share is a file of %" PRId64 " kB; "
                    "raise it", (uint64_t)limit.rlim_cur / 1024, (int64_t)bytes / 1024);
    if (ftruncate(job->fd, bytes) == 0) return OK;
    return FAIL(E_MEMORY, "no memory that %d ranks can share: %s", job->n_slots, strerror(errno));
}

enum status own_memory_make(int n_slots, int n, int *fd) {
    if (n_slots > OWN_MOST_RANKS)
        return FAIL(E_CONFIG, "%d ranks on one host are more than --comm-transport direct takes (%d); use "
                    "fewer%s", n_slots, OWN_MOST_RANKS, n_slots > n ? "" : ", or --comm-transport mpi");
    struct own_job job = {.n_slots = n_slots};
    struct own_memory *memory;
    struct membership first = {.number = 0, .n = n, .from = -1};
    for (int i = 0; i < n; i++) first.slot[i] = i;
    job.fd = *fd = memfd_create("trivium", 0);
    if (*fd < 0) return FAIL(E_MEMORY, "no memory that ranks can share: memfd_create: %s", strerror(errno));
    enum status status = make_room(&job, 0);
    if (status == OK) status = own_memory_map(&job, &memory);
    if (status != OK) {
        close(*fd);
        return status;
    }
    memory->ends = -1;
    status = own_membership_open(memory, &job, &first, NULL);
    bool random = greeting_secret(memory->secret);
    own_memory_unmap(memory);
    if (random) return status;
    close(*fd);
    return FAIL(E_IO, "this system has no random numbers for a secret; see /dev/urandom");
}

/* ---- mapping ---- */
static enum status map(const struct own_job *job, size_t at, size_t bytes, void **out) {
    *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, job->fd, (off_t)at);
    if (*out != MAP_FAILED) return OK;
    return FAIL(E_MEMORY, "cannot map the %zu bytes that %d ranks share: %s", bytes, job->n_slots, strerror(errno));
}

enum status own_memory_map(const struct own_job *job, struct own_memory **out) {
    void *at;
    TRY(map(job, 0, control_bytes(), &at));
    *out = at;
    return OK;
}
void own_memory_unmap(struct own_memory *memory) { munmap(memory, control_bytes()); }

enum status own_rings_map(const struct own_job *job, int32_t epoch, struct ring **out) {
    void *at;
    TRY(map(job, rings_at(job->n_slots, epoch), rings_bytes(job->n_slots), &at));
    *out = at;
    return OK;
}
void own_rings_unmap(const struct own_job *job, struct ring *rings) { munmap(rings, rings_bytes(job->n_slots)); }

/* ---- epochs ---- */
struct membership own_membership_now(const struct own_memory *m) {
    return m->of[(atomic_load_explicit(&m->epoch, memory_order_acquire) & ~OWN_CLOSED) % OWN_EPOCHS];
}

bool own_membership_close(struct own_memory *m, int32_t number) {
    int now = number;
    atomic_compare_exchange_strong(&m->epoch, &now, number | OWN_CLOSED);
    return now == number || now == (number | OWN_CLOSED);
}
bool own_membership_is_closed(const struct own_memory *m) { return (atomic_load(&m->epoch) & OWN_CLOSED) != 0; }

enum status own_membership_open(struct own_memory *m, const struct own_job *job, const struct membership *next,
                                bool *opened) {
    int at = next->number % OWN_EPOCHS, before = next->number ? next->number - 1 : 0;
    if (next->number >= OWN_MOST_EPOCHS)
        return FAIL(E_MEMORY, "no room for epoch %d, which is the limit of a job; start it again from its last "
                    "checkpoint", next->number);
    TRY(make_room(job, next->number));
    for (int s = 0; s < OWN_MOST_RANKS; s++) m->board[at][s] = (struct own_board){0};
    m->of[at] = *next;
    for (int i = 0; i < next->n; i++) m->of[at].host[i] = m->host[next->slot[i]];
    bool first = atomic_compare_exchange_strong(&m->epoch, &before, next->number);
    if (opened) *opened = first;
    if (!first) return OK;
    if (next->number >= 2)        /* ranks that have not seen this epoch yet may still read the rings of the last one */
        fallocate(job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)rings_at(job->n_slots, next->number - 2),
                  (off_t)rings_bytes(job->n_slots));
    return OK;
}

bool own_membership_is_committed(const struct own_memory *m, const struct membership *e) {
    for (int i = 0; i < e->n; i++)
        if (!m->board[e->number % OWN_EPOCHS][e->slot[i]].committed) return false;
    return true;
}
bool own_membership_is_drained(const struct own_memory *m, const struct membership *e) {
    for (int i = 0; i < e->n; i++)
        if (!m->board[e->number % OWN_EPOCHS][e->slot[i]].drained) return false;
    return true;
}

/* ---- this process ---- */
void own_job_tell(const struct own_job *job) {
    char text[128];
    snprintf(text, sizeof text, "slot=%d slots=%d fd=%d nodes=%d first=%d ip=%u", job->slot, job->n_slots, job->fd,
             job->n_nodes, job->n_first, job->ip);
    setenv(OWN_JOB_VARIABLE, text, 1);
}

enum status own_job_find(struct own_job *out, bool *is_one) {
    const char *text = getenv(OWN_JOB_VARIABLE);
    int end = 0;
    *is_one = text && *text;
    if (!*is_one) return OK;
    int n = sscanf(text, "slot=%d slots=%d fd=%d nodes=%d first=%d ip=%u%n", &out->slot, &out->n_slots, &out->fd,
                   &out->n_nodes, &out->n_first, &out->ip, &end);
    bool read = n == 6 && !text[end] && out->n_nodes >= 0 && out->n_first >= 0 && out->n_first <= out->n_slots;
    if (read && out->n_slots >= 1 && out->n_slots <= OWN_MOST_RANKS && out->slot >= 0 && out->slot < out->n_slots)
        return OK;
    return FAIL(E_CONFIG, OWN_JOB_VARIABLE "=\"%.64s\" is not what trivium launch has written; unset it", text);
}

void own_job_withdraw(const struct own_job *job) {
    struct own_memory *memory = NULL;
    if (own_memory_map(job, &memory) == OK) memory->line[job->slot].state = OWN_WITHDRAWN;
}
