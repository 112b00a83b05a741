#define _GNU_SOURCE /* memfd_create */
#include "lib/comm/own/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t memory_bytes(int n) { return sizeof(struct own_memory) + (size_t)n * (size_t)n * sizeof(struct ring); }

enum status own_memory_make(int n, int *fd) {
    if (n > OWN_MOST_RANKS)
        return FAIL(E_CONFIG, "%d ranks on one host are more than --comm-transport own takes (%d); use "
                    "--comm-transport mpi", n, OWN_MOST_RANKS);
    *fd = memfd_create("trivium", 0);
    if (*fd < 0) return FAIL(E_MEMORY, "no memory that ranks can share: memfd_create: %s", strerror(errno));
    if (ftruncate(*fd, (off_t)memory_bytes(n)) == 0) return OK;
    int reason = errno;
    close(*fd);
    return FAIL(E_MEMORY, "no memory of %zu bytes that %d ranks can share: %s", memory_bytes(n), n, strerror(reason));
}

enum status own_memory_map(const struct own_job *job, struct own_memory **out) {
    void *at = mmap(NULL, memory_bytes(job->size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, job->fd, 0);
    *out = at == MAP_FAILED ? NULL : at;
    if (*out) return OK;
    return FAIL(E_MEMORY, "cannot map the %zu bytes that %d ranks share: %s", memory_bytes(job->size), job->size,
                strerror(errno));
}

void own_memory_unmap(const struct own_job *job, struct own_memory *memory) {
    if (memory) munmap(memory, memory_bytes(job->size));
}

void own_job_tell(const struct own_job *job) {
    char text[96];
    snprintf(text, sizeof text, "rank=%d size=%d fd=%d", job->rank, job->size, job->fd);
    setenv(OWN_JOB_VARIABLE, text, 1);
}

enum status own_job_find(struct own_job *out, bool *is_one) {
    const char *text = getenv(OWN_JOB_VARIABLE);
    int end = 0;
    *is_one = text && *text;
    if (!*is_one) return OK;
    bool read = sscanf(text, "rank=%d size=%d fd=%d%n", &out->rank, &out->size, &out->fd, &end) == 3 && !text[end];
    if (read && out->size >= 1 && out->size <= OWN_MOST_RANKS && out->rank >= 0 && out->rank < out->size) return OK;
    return FAIL(E_CONFIG, OWN_JOB_VARIABLE "=\"%.64s\" is not what trivium launch has written; unset it", text);
}
