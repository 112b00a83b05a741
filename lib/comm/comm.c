/* The world of this process: entering MPI, leaving it, and the settings of every operation.
 *
 * The folder in one page:
 *   comm.c         enter and leave                        comm_self.c        backend: a group of one
 *   comm_group.c   groups and their ledgers               comm_mpi*.c        backend: MPI
 *   comm_ops.c     start an operation (any backend)       comm_mail.c        control messages beside the groups
 *   comm_check.c   do all members make the same call?     mesh.c             coordinates -> groups
 *   comm_wait.c    wait for it, with a deadline           fail_agree.c       one failure, known to all
 *   comm_roll*.c   the deadline passed: who is missing?
 *   comm_device.c  memory of a GPU: who moves it          comm_nccl*.c       mover: NCCL
 *   comm_pinned.c  pinned memory, kept                    comm_staged.c      mover: pinned memory and MPI
 *   comm_self_device.c   memory of a GPU in a group of one
 *
 * An operation passes through ops -> (check) -> backend.start, and later wait -> backend.test until done or deadline.
 *
 * What breaks: a process that leaves MPI while a peer still waits for it strands the peer, so MPI_Finalize is only for
 * jobs in which everything that was started has ended. Every other end is MPI_Abort, which ends all processes. */
#include "lib/comm/comm.h"

#include "lib/base/cores.h"
#include "lib/base/log.h"
#include "lib/comm/comm_backend.h"
#include "lib/comm/comm_device.h"
#include "lib/comm/comm_mail.h"
#include "lib/comm/comm_mpi_world.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct mpi_place place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1};
static struct comm_settings settings = {.timeout_s = 600.0, .check_collectives = false};
static bool started;

int comm_world_rank(void) { return place.rank; }
int comm_world_size(void) { return place.size; }
int comm_local_rank(void) { return place.local_rank; }
int comm_local_size(void) { return place.local_size; }
double comm_local_cores(void) { return started ? fmin(place.local_cores, cores_quota("")) : cores_allowed(); }

void comm_configure(const struct comm_settings *wanted) { settings = *wanted; }
const struct comm_settings *comm_settings_in_force(void) { return &settings; }

/* "node03" rather than "node03.cluster.example.org": error lines should stay short. */
void comm_host_name(char *host, size_t bytes) {
    if (gethostname(host, bytes) != 0) snprintf(host, bytes, "unknown");
    host[bytes - 1] = 0;
    for (char *c = host; *c; c++)
        if (*c == '.') *c = 0;
}

void comm_world_identity(void) {
    char host[64], identity[128];
    comm_host_name(host, sizeof host);
    snprintf(identity, sizeof identity, "rank %d/%d @%s", place.rank, place.size, host);
    status_identity(identity);
}

enum status comm_start(int *argc, char ***argv) {
    TRY(mpi_world_start(argc, argv, &place));
    started = true;
    comm_world_identity();
    TRY(mail_open());
    TRY(group_open_world());
    return OK;
}

void comm_finish(bool clean, int code) {
    if (!started) return;
    fflush(NULL); /* MPI_Abort throws unwritten lines away */
    if (clean && !comm_given_up_done()) {
        log_warn("an operation that ran into its deadline is still under way; ending the job instead of waiting for it");
        clean = false;
    }
    /* In a world of one there is nobody to strand and nobody to kill: the caller ends with its own code. */
    if (!clean && place.size > 1) mpi_world_kill(code ? code : 1);
    comm_device_close();
    group_close_world();
    mail_close();
    mpi_world_finish();
    started = false;
}
