/* The interface inside lib/comm: the fields of a group, and the functions of a backend.
 *
 * An operation is a struct comm_call. A backend starts it and tests whether it is done, and never blocks. Deadlines,
 * ledgers and checks are the same for every backend and are in comm_wait.c, comm_ops.c and comm_check.c. Private to
 * this folder. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"

/* The MPI standard guarantees tags up to 32767. The upper half is for collectives by hops (comm_hops.c). */
enum { GROUP_NAME_BYTES = 16, COMM_TAG_MAX = 16383 };

/* One operation. For operations in place, from == to. */
struct comm_call {
    enum comm_op op;
    const void *from;
    void *to;
    int64_t count;                 /* number of elements; for gather, scatter and all_to_all: of one rank's part */
    enum dtype dtype;
    enum comm_reduction reduction;
    int peer;                      /* root, destination or source: a rank of the group */
    int tag;
};

struct comm_backend {
    const char *name;
    /* Start the call. Sets request->handle, or leaves it NULL when there is nothing to wait for. */
    enum status (*start)(const struct comm_call *, struct comm_request *);
    /* Check once, and advance the operation if possible. When it is done, the handle becomes NULL. */
    enum status (*test)(struct comm_request *, bool *done);
    /* If true, "done" means that a stream has the operation and waits for it. Then `start` has marked the span's begin
     * and end in the stream. */
    bool queues;
};

struct group {
    char name[GROUP_NAME_BYTES];
    int size, rank;
    const struct comm_backend *backend;   /* runs operations on host memory; for device memory: comm_device.h */
    void *communicator;            /* the backend's (an MPI_Comm) */
    void *side;                    /* the data that the device transport keeps for this group */
    int n_tags;                    /* group_carry_messages */
    struct group *next;            /* the group that was created after this one */
    int *members;                  /* world rank of each rank of the group */
    int *node;                     /* node of each rank of the group (nodes.h) */
    int flight;                    /* the index of this group in the flight record, or -1 */
    int axis;                      /* enum mesh_axis if the mesh made the group, else 0 */
    int64_t n_collectives;         /* the same on every member, since all call the same collectives in the same order */
    int64_t n_messages;            /* sends and receives: each member has its own count */
    int64_t hop_bytes;             /* memory that collectives by hops use now, without the caller's buffers */
    struct ledger ledger;
};

extern const struct comm_backend comm_self, comm_on_host, comm_hops;

/* The settings of the last comm_configure; the defaults before the first call, and after a call with NULL. */
const struct comm_settings *comm_settings_in_force(void);
void comm_settings_are(const struct comm_settings *);

static inline bool comm_is_message(enum comm_op op) { return op == COMM_SEND || op == COMM_RECV; }

/* Sets the process identity to "rank r/n @host". */
void comm_world_identity(void);

/* comm_group.c. group_first: the oldest group of more than one rank, which starts a list of all. group_counting: the
 * same group, with writable counters. The world: open and close the two groups that comm owns */
struct group *group_first(void);
struct group *group_counting(const struct group *);
enum status group_open_world(void);   /* @collective{every process of the job} @errors E_COMM, E_MEMORY */
void group_close_world(void);         /* @collective{every process of the job} */

/* comm_world.c: the recorder of operations, or NULL; the watcher of calls. comm_enter and comm_leave enclose code whose
 * time counts in comm_work_s */
struct spans *comm_recorder(void);
struct comm_watch comm_watching(void);
double comm_enter(void);
void comm_leave(double entered_s);

/* Count a message of this operation from this rank to rank `peer` of the group. */
static inline void group_count_message(struct group *group, enum comm_op op, int peer, int64_t bytes) {
    bool between = group->node[group->rank] != group->node[peer];
    group->ledger.entry[op].messages[between]++;
    group->ledger.entry[op].sent[between] += (double)bytes;
}

/* comm_ops.c: start a barrier. @collective{group} @errors E_COMM, E_TIMEOUT, E_MEMORY, E_INTERNAL */
enum status comm_barrier_start(const struct group *, struct comm_request *);

/* comm_check.c: do all members of the group make this same call? Blocking. @collective{group} @errors E_COMM: they do
 * not, and the message has the difference; E_TIMEOUT, E_MEMORY */
enum status comm_check(struct group *, const struct comm_call *, const struct comm_request *);

/* comm_wait.c */
/* This request, which has a handle, counts in comm_in_flight until it is done. */
void comm_count_in_flight(struct comm_request *);
const struct comm_request *comm_waiting(void); /* what this rank is waiting for, or NULL */
/* on: this rank waits for ranks that are busy for long, so it sleeps between two checks, and has no deadline. */
void comm_wait_standing_by(bool on);
/* Have all operations that timed out ended by now? @collective{none} */
bool comm_given_up_done(void);
/* Drop the operations that timed out: they are no longer in flight. @collective{none} */
void comm_given_up_drop(void);
