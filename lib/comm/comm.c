/* Entering MPI, and leaving it.
 *
 * The folder in one page:
 *   comm_world.c   this process, settings, names, formulas    comm_self.c        backend: a group of one
 *   comm_group.c   groups and their ledgers               comm_on_host.c     backend: all other groups
 *   comm_ops.c     start an operation (any backend)       host_transport.h          moves bytes between processes
 *   comm_blocking.c   start it and wait                   comm.c             enter and leave
 *   comm_check.c   do all members make the same call?     mesh.c             coordinates -> groups
 *   comm_wait.c    wait for it, with a deadline           fail_agree.c       one failure, known to all
 *   hops*.c        algorithms, as tables                  hop_walk.c         runs a table
 *   comm_hops.c    collectives by tables, over messages   comm_rules.c       which algorithm for which axis
 *   comm_mpi*.c    transport: MPI                         direct/            transport: the job itself
 *   comm_mail.h    messages outside all groups
 *   nodes.c        which rank is on which node            hop_simulate.c     how long a table takes on given links
 *   comm_roll*.c   after a deadline: the missing ranks
 *   comm_device.c  memory of a GPU: its transport          comm_nccl*.c       transport: NCCL
 *   flight*.c      what this rank did last, for others to read     postmortem*.c   what the ranks' records say together
 *   comm_use_device.c   from here on a GPU's memory is moved, too
 *   comm_pinned.c  pinned memory, kept                    comm_staged.c      transport: pinned memory and MPI
 *   comm_self_device.c   memory of a GPU in a group of one
 *
 * An operation passes through ops -> (check) -> backend.start, and later wait -> backend.test until done or deadline.
 *
 * What breaks: if a process leaves MPI while a peer waits for it, the peer waits forever. So MPI_Finalize is only for
 * jobs in which all operations have ended. Every other end is MPI_Abort, which ends all processes. */
#include "lib/comm/comm.h"

#include "lib/base/log.h"
#include "lib/comm/transport/host_transport.h"
#include "lib/comm/comm_device.h"
#include "lib/comm/membership/comm_membership.h"
#include "lib/comm/membership/membership_table.h"
#include "lib/comm/hops/comm_hops.h"
#include "lib/comm/hops/comm_links.h"
#include "lib/comm/flight/flight.h"
#include "lib/comm/direct/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMM_LIBRARY_BYTES = 320 };
static bool started;

enum { JOB_NAME_BYTES = 64 };

/* Rank 0 names the job: by the name in the flight record (later epochs), else by launch's name, else by a new one. */
static enum status name_job(char job[JOB_NAME_BYTES]) {
    const char *given = flight_mine() ? flight_mine()->job : getenv("TRIVIUM_JOB");
    if (given && *given && !strchr(given, '/')) snprintf(job, JOB_NAME_BYTES, "%s", given);
    else snprintf(job, JOB_NAME_BYTES, "%ld.%.6f", (long)getpid(), clock_s());
    return comm_host_transport()->share(job, JOB_NAME_BYTES);
}

/* Open the flight record. A world of one rank has none. */
static enum status open_flight(void) {
    char job[JOB_NAME_BYTES], host[64];
    TRY(name_job(job));
    flight_rank_is(comm_world_rank(), comm_world_size());
    if (comm_world_size() == 1 || flight_mine()) return OK;
    struct membership now, from;
    comm_epoch_members(&now, &from);
    comm_host_name(host, sizeof host);
    flight_open(job, comm_world_size() <= MEMBERSHIP_MOST_RANKS ? now.slot[comm_world_rank()] : comm_world_rank(),
                comm_world_rank(), comm_world_size(), host, comm_local_rank() == 0);
    return OK;
}

/* Close the flight record, and print how to read it. Under `launch` nothing is printed, because launch reads it
 * itself. */
static void close_flight(bool clean) {
    char job[64] = "";
    if (flight_mine()) snprintf(job, sizeof job, "%s", flight_mine()->job);
    flight_close(!clean && comm_world_size() > 1);
    if (!clean && *job && !getenv("TRIVIUM_JOB"))
        log_info("what each rank did last with others is kept: trivium postmortem %s", job);
}

/* The transport is MPI, unless `launch` has started this rank in a job without MPI. */
static enum status choose_transport(void) {
    struct own_job job;
    bool is_own;
    TRY(own_job_find(&job, &is_own));
    comm_host_transport_is(is_own ? &transport_own : &transport_mpi);
    comm_membership_is(is_own ? &membership_direct : NULL);
    return OK;
}

bool comm_is_spare(void) {
    struct own_job job;
    bool is_own, found = own_job_find(&job, &is_own) == OK && is_own;
    status_clear();
    return found && job.n_first > 0 && job.slot >= job.n_first;
}

void comm_withdraw(const char *why) {
    struct own_job job;
    bool is_own;
    char text[1024];
    snprintf(text, sizeof text, "%s", why);  /* `why` may point into the message that is recorded last */
    if (own_job_find(&job, &is_own) == OK && is_own) {
        fprintf(stderr, "trivium: process %d cannot take part: %s\n", job.slot, text);
        own_job_withdraw(&job);
    }
}

static enum status open_world(void) {
    comm_world_identity();
    TRY(open_flight());                      /* a new spare has no flight record yet */
    return group_open_world();
}

enum status comm_start(int *argc, char ***argv) {
    TRY(choose_transport());
    enum status status = comm_host_transport()->start(argc, argv, comm_world_place());
    started = status == OK || status == E_EPOCH;
    if (status == OK) status = comm_host_transport()->mail_open();
    if (status == OK) status = open_world();
    while (status == E_EPOCH) {              /* a rank has died before all ranks had started */
        comm_epoch_leave();
        status = comm_epoch_enter();
    }
    return status;
}

/* Settings go back to the defaults, because a new spare has only these, and all ranks have to send alike. The timeout
 * may differ between ranks, and stays. */
static void forget_settings(void) {
    const struct comm_settings patience = {.timeout_s = comm_settings_in_force()->timeout_s};
    comm_settings_are(&patience);
    comm_fix_sums(false);
    (void)comm_emulate_links(NULL, 1);
}

void comm_epoch_leave(void) {
    comm_hops_drop();
    comm_device_leave();
    comm_given_up_drop();
    forget_settings();
    comm_membership_leave();
}

enum status comm_epoch_enter(void) {
    const struct group *left = group_first() == group_world() ? group_world()->next : group_first();
    if (left) return FAIL(E_INTERNAL, "group %s is left from the epoch before", left->name);
    group_close_world();
    free(comm_world_place()->host);
    comm_world_place()->host = NULL;
    TRY(comm_membership_enter(comm_world_place()));
    return open_world();
}

void comm_finish(bool clean, int code) {
    if (!started) return;
    fflush(NULL); /* MPI_Abort discards output that is not flushed */
    if (clean && !comm_given_up_done()) {
        log_warn(
            "an operation that ran into its deadline is still in flight; ending the job instead of waiting for it");
        clean = false;
    }
    close_flight(clean);
    /* In a world of one there is no peer to kill, so the caller exits with its own code. */
    if (!clean && comm_world_size() > 1) comm_host_transport()->kill(code ? code : 1);
    comm_device_close();
    comm_emulate_links(NULL, 1);
    group_close_world();
    comm_host_transport()->mail_close();
    comm_host_transport()->finish();
    free(comm_world_place()->host);
    comm_world_place()->host = NULL;
    comm_world_place()->local_cores = 0;
    started = false;
}

const char *comm_library(void) {
    static char text[COMM_LIBRARY_BYTES];
    comm_host_transport()->version(text, sizeof text);
    size_t n = strlen(text);
    int nccl = comm_nccl_version();
    if (nccl) snprintf(text + n, sizeof text - n, ", NCCL %d.%d.%d", nccl / 10000, nccl / 100 % 100, nccl % 100);
    return text;
}
