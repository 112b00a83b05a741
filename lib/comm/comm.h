/* Groups of ranks and the collectives over them.
 *
 * Every operation is asynchronous: it starts here and ends in comm_wait, where every wait has a deadline. The blocking
 * forms are start + wait. Backends: `self` (one rank: nothing is sent) and `mpi`; for memory of a GPU, `nccl` or
 * `staged` (comm_use_device). Code outside this folder never treats a group of one rank as a special case.
 *
 * Waiting. Ranks may outnumber cores, and MPI makes no progress by itself, so a wait is MPI_Test + sched_yield until
 * done or until the deadline. At the deadline the rank sends a roll call: every waiting rank answers with the operation
 * that it waits for, and the message names the ranks that do not answer. (Measured alternatives: docs/architecture.md,
 * "Waiting".)
 *
 * Counting. Each group keeps a ledger: calls, algorithm bytes, seconds, by operation. With n ranks and a buffer of S
 * bytes (the whole one, not the shard) the algorithm bytes that one rank sends are
 *   all_reduce 2 S (n-1)/n | all_gather, reduce_scatter, all_to_all S (n-1)/n | broadcast, reduce, send S | recv,
 *   barrier 0
 * which is what a ring moves, and what "bus bandwidth" divides by time (nccl-tests, PERFORMANCE.md). */
#pragma once

#include "lib/base/span.h"
#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/comm/nodes.h"
#include "lib/device/dtype.h"

enum comm_op {
    COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_BROADCAST, COMM_REDUCE, COMM_ALL_TO_ALL,
    COMM_SEND, COMM_RECV, COMM_BARRIER, N_COMM_OPS
};
/* With floating types the result of each of the three is NaN if any rank has a NaN. */
enum comm_reduction { COMM_SUM, COMM_MAX, COMM_MIN };
/** "all_reduce" */
const char *comm_op_name(enum comm_op);

/* messages, sent: the messages that this rank really sends and their bytes, [0] inside its node and [1] between nodes,
 * including those of collectives by hops. Messages inside the library are unknown: library_calls counts its calls. */
struct ledger_entry { int64_t calls, library_calls, messages[2]; double bytes, sent[2], wait_s; };
struct ledger { struct ledger_entry entry[N_COMM_OPS]; int64_t hop_bytes; /* the most memory in use by hops at any
                                                                           * time */ };

struct group;        /* opaque; made by the mesh */
struct comm_algorithm; /* hops.h */
struct comm_request; /* an operation that comm_wait ends; the caller owns the storage (comm_request.h) */

/* ---- the world: one per process ---- */
/* The algorithm of collectives on host memory along one axis of the mesh (mesh.h; 0: in groups outside the mesh).
 * Without an algorithm, or for operations that it does not have, large sums and gathers go pairwise, and other
 * operations through the library. */
struct comm_rule { bool library; const struct comm_algorithm *algorithm; };
enum { COMM_MAX_AXES = 24 };
struct comm_settings {
    double timeout_s;          /* a wait that lasts longer ends with E_TIMEOUT */
    bool check_collectives;    /* compare op, count, dtype and root across the group before each collective */
    bool time_work;            /* measure comm_work_s, with two more system calls for each operation and each wait */
    struct comm_rule rule[COMM_MAX_AXES];   /* the algorithms of collectives on host memory, by the group's axis */
    struct nodes nodes;
};
/** Start MPI (asks for MPI_THREAD_FUNNELED, and warns if MPI gives less). Without mpirun this is a world of one rank.
 *  Sets the process identity to "rank r/n @host". @collective{every process of the job} @errors E_COMM */
enum status comm_start(int *argc, char ***argv);
/** With `launch --elastic` the ranks of a job may change: then a wait returns E_EPOCH. First leave: it drops the
 *  operations in flight and gives their requests and buffers back to the caller; groups may then only be destroyed.
 *  Then enter: rank, size and the world's group are new; all other groups must have been destroyed before. A process
 *  that is not a member waits in it until it becomes one. @collective{the members of the new epoch} @errors E_EPOCH:
 *  the ranks have changed again; E_INTERNAL: a group was not destroyed, or the transport is MPI; E_COMM, E_MEMORY */
void comm_epoch_leave(void);
enum status comm_epoch_enter(void);
/** Rank 0 reports the number of finished steps, which launch --chaos reads. @collective{none} */
void comm_epoch_done(int64_t step);
/** The number of the epoch, 0 at first. @collective{none} */
int comm_epoch(void);
/** The members of this epoch, and of the epoch `from` whose snapshots it continues with (from->number -1: there is
 *  none, and n is 0). Ranks are places in an epoch; slots identify processes across epochs. Under MPI there is one
 *  epoch, and `from` is none. @collective{none} */
struct membership;
void comm_epoch_members(struct membership *now, struct membership *from);
/** Report that this rank is committed: from now on no state is lost if it dies (membership/membership.h).
 *  @collective{none} */
void comm_epoch_commit(void);
/** Have all members of this epoch committed? @collective{none} */
bool comm_epoch_is_committed(void);
/** Has the agent asked this epoch to end between two steps, for a planned change of members (membership/membership.h)?
 *  Ranks see the request at different times, and have to agree on the step. @collective{none} */
bool comm_epoch_ends(void);
/** Wait for the next epoch, after the ranks have agreed to end this one and have kept their state of the last step.
 *  @return E_EPOCH @collective{members} @errors E_INTERNAL: the transport is MPI */
enum status comm_epoch_drain(void);
/** wanted: ask for this rank to be replaced; false: withdraw the request. A SIGUSR2 to the process asks to leave, and
 *  cannot be withdrawn. @collective{none} */
void comm_epoch_ask_relief(bool wanted);
/** Set how the job may shrink (membership/membership.h). Before this call, no rank can be left out. Only rank 0's call
 *  has an effect. @collective{none} */
struct membership_shape;
void comm_epoch_shape(const struct membership_shape *);
/** Keep a number that survives the death of ranks. comm_epoch_kept: the last number kept, or 0. @collective{none} */
void comm_epoch_keep(int64_t number);
int64_t comm_epoch_kept(void);
/** Change the settings of the world, to the same values on every rank. No operation may be in flight. */
void comm_configure(const struct comm_settings *);
/** From now on every sum of host memory over 2^k ranks, whatever its bytes and rule, is a binary tree whose first level
 *  adds neighbors (hops_halving.c). No operation may be in flight during the call.
 *  @collective{world} */
void comm_fix_sums(bool on);
/** Under time_work, the processor seconds that this thread has spent in operations so far: starting, advancing and
 *  awaiting them. The other processor time of a rank is its own work. @collective{none} */
double comm_work_s(void);
/** Leave MPI. If `clean` is false, or an operation that timed out is still in flight, kill the job with exit code
 *  `code` (MPI_Abort). In a world of one rank there is no peer to kill: it returns, and the caller exits.
 *  @collective{every process of the job, when clean} */
void comm_finish(bool clean, int code);
int comm_world_rank(void);
int comm_world_size(void);
/** Is this rank 0 of the world, which prints for all ranks? */
static inline bool comm_is_rank_0(void) { return comm_world_rank() == 0; }
int comm_local_rank(void);     /* rank and size among the ranks of this host */
int comm_local_size(void);
/** Number of cores that the ranks of this host may use together: the union of their affinity masks, at most the
 *  cgroup's quota. */
double comm_local_cores(void);
/** The name of this machine without its domain, such as "node03". */
void comm_host_name(char *host, size_t bytes);
/** Does the transport of host memory have its own collectives, as MPI has? If not, all collectives go by tables of
 *  messages (hops.h). Before comm_start the answer is that of MPI. @collective{none} */
bool comm_has_library(void);
/** Was this program built with MPI? Without MPI (make MPI=0) only `launch` can start several ranks.
 *  @collective{none} */
bool comm_has_mpi(void);
/** The library and its version: "Open MPI v4.1.4"; in builds for GPUs also ", NCCL 2.21.5". Static storage. */
const char *comm_library(void);

/* ---- device memory ---- */
/* The transport of a GPU's memory. */
enum comm_transport {
    COMM_NCCL,     /* NCCL, on streams of its own: each rank has its own GPU, or shares one if comm_nccl_fits */
    COMM_STAGED,   /* through pinned host memory and MPI: ranks may share a GPU */
    COMM_ALONE     /* no transport: only groups of one rank will be used. comm_use_device is not collective then */
};
/** From now on, operations on memory of `device` use the transport, in old and new groups. The buffers of an operation
 *  are all in the device's memory or all in the host's. A second call with the same arguments does nothing. A call with
 *  another transport replaces the first one. For the CPU the call does nothing.
 *
 *  Order: start puts the operation after all work issued so far on the compute stream; comm_wait puts all later work
 *  after the operation. With NCCL neither blocks: the data may still be in flight when comm_wait returns, and later
 *  work on the GPU waits for them. STAGED blocks until the copy back to the GPU is queued. @collective{world, but
 *  COMM_ALONE} @errors E_CONFIG: NCCL, and ranks share a GPU; E_COMM, E_DEVICE, E_MEMORY */
enum status comm_use_device(const struct device *device, enum comm_transport);
/** Do two ranks compute on one GPU? Compares the GPUs' identities, because a GPU's number may differ between ranks.
 *  @collective{world} @errors E_COMM, E_DEVICE */
enum status comm_device_shared(const struct device *device, bool *shared);
/** Can NCCL move memory of these GPUs? If ranks share a GPU, this needs NCCL 2.30 or newer, and
 *  NCCL_MULTI_RANK_GPU_ENABLE=1 on all ranks. @collective{world} @errors E_COMM, E_DEVICE */
enum status comm_nccl_fits(const struct device *device, bool *fits);
/** Has an operation on the device failed since it was started? Does not block. comm_wait_device checks this, too.
 *  @errors E_COMM, E_DEVICE */
enum status comm_device_check(void);
/** Wait for work on the device, named `what`, until the deadline; other operations advance meanwhile. At the
 *  deadline the rank sends a roll call, as in comm_wait, for the oldest unfinished operation on the device. Then
 *  NCCL's communicators are aborted, and no more device memory is moved. @errors E_TIMEOUT, E_COMM, E_DEVICE
 *  @collective{none} */
enum status comm_wait_device(const struct device_mark *, const char *what);
/** Like comm_wait_device, for all work queued so far. Call it before upload, download and finish, which wait for the
 *  device without a deadline and would not notice a lost peer. @errors as comm_wait_device @collective{none} */
enum status comm_wait_queued(const struct device *, const char *what);

/* ---- groups ---- */
/** Split the world: ranks of one colour form a group, ordered by key (ties by world rank). A rank with colour < 0 gets
 *  a group of one. GROUP_ALL_ALONE: every rank gets a group of one, without communication. `name` ("tp") is copied and
 *  appears in errors and ledgers. @collective{world} @errors E_COMM, E_MEMORY */
enum { GROUP_ALL_ALONE = -2 };
enum status group_create(const char *name, int colour, int key, struct group **out);
/** The group of all ranks; owned by comm, never destroyed. */
struct group *group_world(void);
/** The group of this rank alone; owned by comm, never destroyed. */
struct group *group_self(void);
void group_destroy(struct group **); /* @collective{group} */
/** Prepare the group for messages in device memory between neighbors in the ring of its ranks, with tags 0 to n_tags -
 *  1 (at most 4). Call it before the first message (comm_lanes_nccl.c). Tags 0 and 3 go to the next rank, 1 and 2 to
 *  the previous rank. @collective{group} @errors as group_create */
enum status group_carry_messages(struct group *, int n_tags);
int group_size(const struct group *);
int group_rank(const struct group *);
const char *group_name(const struct group *);
const struct ledger *group_ledger(const struct group *);
void group_ledger_reset(struct group *);
/** Algorithm bytes of one operation, as the ledger counts them. n: size of the group; bytes: of the whole buffer.
 *  Pure. */
double comm_algorithm_bytes(enum comm_op, int n, double bytes);

/** From now on record a span for each collective of more than one rank, from its start until comm_wait finds it done
 *  (the schedule records messages). Borrowed; NULL: stop. No collective may be in flight during the call.
 *  @collective{none} */
void comm_record(struct spans *);

/* An operation that this rank starts in a group of more than one rank. members, peer: world ranks; bytes: algorithm
 * bytes. Valid only while comm_watch's `call` runs. */
struct comm_seen {
    enum comm_op op;
    enum dtype dtype;
    int64_t count;
    double bytes;
    int peer, tag;                 /* of a message; -1 and 0 for a collective */
    const char *group;
    const int *members;
    int size;
};
struct comm_watch { void *self; void (*call)(void *self, const struct comm_seen *); };
/** From now on `call` gets every operation in a group of more than one rank when it starts, in order. call NULL: stop.
 *  @collective{none} */
void comm_watch_calls(struct comm_watch);

/* ---- operations ---- All are @collective{group} except send and recv. The caller owns the buffers and must not touch
 * them between start and wait. `count` is in elements, at most 2^31 - 1 in the whole buffer. Buffers are all in host
 * memory, or all in memory of the device in use (comm_use_device); on a device MAX and MIN exist for fp32, fp64 and
 * integers only. Sums of bf16 and fp16 are taken in fp32 per pair and rounded once. Results have the same bits on every
 * rank, and the same bits each time in the same group. @errors E_COMM (also: more elements than MPI takes, or members
 * that disagree under check_collectives); E_INTERNAL for a rank or tag that does not exist; in comm_wait E_TIMEOUT,
 * whose message has the rank, operation, sequence number, group and missing ranks */

/** x[0..count) = reduction over the group, in place. */
enum status comm_all_reduce_start(const struct group *, void *x, int64_t count, enum dtype, enum comm_reduction,
                                  struct comm_request *);
/** full[r * count + i] = shard[i] of rank r. shard may be its own place inside full. */
enum status comm_all_gather_start(const struct group *, const void *shard, void *full, int64_t count, enum dtype,
                                  struct comm_request *);
/** shard[i] = sum over ranks of full[rank * count + i], rank: this rank's. In a group of one rank, shard may be its own
 *  place inside full; otherwise the two must not overlap. */
enum status comm_reduce_scatter_start(const struct group *, const void *full, void *shard, int64_t count, enum dtype,
                                      struct comm_request *);
enum status comm_broadcast_start(const struct group *, void *x, int64_t count, enum dtype, int root,
                                 struct comm_request *);
/** On rank `root` x becomes the reduction; on other ranks x is unchanged. */
enum status comm_reduce_start(const struct group *, void *x, int64_t count, enum dtype, enum comm_reduction, int root,
                              struct comm_request *);
/** to[r * count + i] = rank r's from[my rank * count + i]. */
enum status comm_all_to_all_start(const struct group *, const void *from, void *to, int64_t count, enum dtype,
                                  struct comm_request *);
/** Point to point: messages between two ranks with one tag arrive in the order in which they were sent. 0 <= tag <=
 *  16383. A rank may send to itself. */
enum status comm_send_start(const struct group *, const void *x, int64_t count, enum dtype, int to, int tag,
                            struct comm_request *);
enum status comm_recv_start(const struct group *, void *x, int64_t count, enum dtype, int from, int tag,
                            struct comm_request *);
enum status comm_barrier(const struct group *);
/** A barrier for an idle rank, while ranks that call comm_barrier may come hours later. It checks every few
 *  milliseconds and sleeps in between, so that it takes no processor time from them. It has no deadline; the other
 *  ranks' deadlines end the job. */
enum status comm_idle(const struct group *);

/** Wait until the request is done or the deadline; return OK at once if it is not in flight. Afterwards it is not in
 *  flight. After E_TIMEOUT the operation cannot be taken back: MPI may touch its buffers until the process ends, so
 *  report the error and leave through comm_finish(false, 1). */
enum status comm_wait(struct comm_request *);
/** Is the request done, and no longer in flight? Never blocks, and has no deadline. @collective{none} @errors E_COMM,
 *  E_DEVICE */
enum status comm_test(struct comm_request *, bool *done);
/** How many operations of this kind this rank has started, and neither awaited nor given up. */
int64_t comm_in_flight(enum comm_op);
/** From now on comm_progress and the loop of comm_wait call `call`, in which this rank serves other ranks while it
 *  computes or waits. `call` may test, start and compute, but must not wait; calls do not nest. If it fails in a wait,
 *  the wait fails. comm_progress ignores the failure, so `call` must fail again the next time. call NULL: stop.
 *  @collective{none} */
struct comm_service { void *self; enum status (*call)(void *self); };
void comm_serve(struct comm_service);
/** Advance all operations in flight (MPI makes no progress by itself) and answer roll calls. Call it between the rows
 *  of a step. Never blocks. */
void comm_progress(void);

/* The blocking forms: start and wait. */
enum status comm_all_reduce(const struct group *, void *x, int64_t count, enum dtype, enum comm_reduction);
enum status comm_all_gather(const struct group *, const void *shard, void *full, int64_t count, enum dtype);
enum status comm_reduce_scatter(const struct group *, const void *full, void *shard, int64_t count, enum dtype);
enum status comm_all_to_all(const struct group *, const void *from, void *to, int64_t count, enum dtype);
enum status comm_broadcast(const struct group *, void *x, int64_t count, enum dtype, int root);

/** Agree on a status. Every rank passes its own; if any rank has failed, the lowest of the failed ranks reports its
 *  message (status_report), and every rank gets that rank's code. The result is OK only if all are OK. A rank that
 *  passes E_TIMEOUT asks no peer: it reports, and gets E_TIMEOUT back. If the agreement itself fails, its message is
 *  recorded, not reported. @collective{group; every rank must reach it, failed or not} @errors any code; E_TIMEOUT,
 *  E_COMM of its own */
enum status fail_agree(const struct group *, enum status mine);
/** Like fail_agree, for failures that do not end the job: the lowest failed rank prints its message as a warning, with
 *  "training continues". @collective{group; every rank must reach it, failed or not} @errors as fail_agree */
enum status fail_warn(const struct group *, enum status mine);
/** fail_agree or fail_warn. */
typedef enum status fail_agreement(const struct group *, enum status mine);

/** Like fail_agree, for a driver that continues after a failure: no rank reports. Every rank gets the message of the
 *  lowest failed rank (status_message) in text, or "" when all are OK, and its own recorded message is cleared.
 *  @collective{group; every rank must reach it, failed or not} @errors as fail_agree */
enum status fail_share(const struct group *, enum status mine, char *text, int64_t text_bytes);
