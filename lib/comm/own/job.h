/* What `launch` and the ranks of a job without MPI have in common: memory that all ranks of a host map, and a line of
 * the environment that says where it is and who this process is.
 *
 * The memory is a file without a name (memfd_create): the agent that starts a host's ranks makes it, they inherit it,
 * and it is gone with the last of them, however that ends. Pages that nobody touches take no room. In it lie
 *
 *   a line per rank      how far it is; the agent reads it, since an exit code alone may lie
 *   words                for emulated links (shared_make)
 *   rings[from][to]      a stream of bytes for each ordered pair of ranks (ring.h) */
#ifndef TRIVIUM_COMM_OWN_JOB_H
#define TRIVIUM_COMM_OWN_JOB_H

#include "lib/base/status.h"
#include "lib/comm/own/ring.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OWN_JOB_VARIABLE "TRIVIUM_OWN_JOB"
enum { OWN_MOST_RANKS = 256, OWN_WORDS = 8192 };

enum own_state { OWN_STARTING, OWN_RUNNING, OWN_FINISHED };
struct own_line { atomic_int state; char alone[60]; };         /* enum own_state; a cache line */

struct own_memory {
    struct own_line line[OWN_MOST_RANKS];
    atomic_uint_least64_t word[OWN_WORDS];
    struct ring ring[];                /* [n * n] */
};

struct own_job { int rank, size, fd; };

/** Make the memory of n ranks. *fd stays open in programs that this process starts. @errors E_CONFIG: more than
 *  OWN_MOST_RANKS; E_MEMORY  @collective{none} */
enum status own_memory_make(int n, int *fd);
/** Map that of the job. @errors E_MEMORY  @collective{none} */
enum status own_memory_map(const struct own_job *, struct own_memory **out);
void own_memory_unmap(const struct own_job *, struct own_memory *);
static inline struct ring *own_ring(struct own_memory *m, int size, int from, int to) {
    return &m->ring[(size_t)from * (size_t)size + (size_t)to];
}

/** The environment of a rank, and what a rank finds there. @return whether it is a rank of such a job
 *  @errors E_CONFIG: the line is not one that own_job_tell has written */
void own_job_tell(const struct own_job *);
enum status own_job_find(struct own_job *out, bool *is_one);

#ifdef __cplusplus
}
#endif
#endif
